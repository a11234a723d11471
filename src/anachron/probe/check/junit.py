"""A check as a JUnit file, as continuous integration shows it: demands pass, fail or lack a verdict; facts tell it."""

from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from anachron.probe.check.gate import Outcome

NOT_IN_XML = {
    code: None for code in (*range(0x20), 0x7F, *range(0xD800, 0xE000), 0xFFFE, 0xFFFF) if code not in (9, 10, 13)
}


def junit(
    model: str, outcomes: Iterable[Outcome], facts: Iterable[Mapping[str, str]], left_out: Iterable[Mapping[str, str]]
) -> bytes:
    """The file. facts: ``name, relation, verdict``; left_out: ``name, relation, reason``, shown as skipped.

    A fact never fails by itself: whether a build does is what the demands say. A demand that too few facts speak to is
    an error, not a failure.
    """
    suite = Element("testsuite", name=_text(f"anachron check {model}"))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}

    def case(group: str, name: str) -> Element:
        counts["tests"] += 1
        return SubElement(suite, "testcase", classname=_text(group), name=_text(name))

    for outcome in outcomes:
        made = case("demands", outcome.demand)
        if outcome.error is not None:
            counts["errors"] += 1
            SubElement(made, "error", message=_text(outcome.error))
        elif not outcome.passed:
            counts["failures"] += 1
            SubElement(made, "failure", message=_text(outcome.words))
        SubElement(made, "system-out").text = _text(outcome.words)
    for fact in facts:
        SubElement(case(fact["relation"], fact["name"]), "system-out").text = _text(fact["verdict"])
    for fact in left_out:
        counts["skipped"] += 1
        SubElement(case(fact["relation"], fact["name"]), "skipped", message=_text(fact["reason"]))
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    indent(suite)
    return bytes(tostring(suite, encoding="utf-8", xml_declaration=True))


def _text(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return text.translate(NOT_IN_XML)
