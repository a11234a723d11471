"""Records of our own in the published shapes of RippleEdits and MQuAKE, about facts that the demo model knows."""

from typing import Any

FRANCE, MACRON, HOLLANDE = "Q142", "Q3052772", "Q157"


def query(prompt: str, *answers: list[str], relation: str = "HEAD_OF_STATE", **more: Any) -> dict[str, Any]:
    """answers: the label of each and its aliases. more: subject_id, target_ids, query_type."""
    given = [{"value": names[0], "aliases": names[1:]} for names in answers]
    about = {"query_type": "regular", "subject_id": FRANCE, "target_ids": ["Q0"], "phrase": None}
    return {"prompt": prompt, "answers": given, "relation": relation} | about | more


def test_of(*queries: dict[str, Any], conditions: tuple[dict[str, Any], ...] = (), how: str = "OR") -> dict[str, Any]:
    return {"test_queries": list(queries), "test_condition": how, "condition_queries": list(conditions)}


test_of.__test__ = False  # type: ignore[attr-defined]  # a maker of records


def ripple(**changes: Any) -> dict[str, Any]:
    """France's head of state, with tests of every kind."""
    capital = query("The name of the capital city of France is", ["Paris"], relation="CAPITAL", target_ids=["Q90"])
    currency = query("The name of the currency in Peru is", ["no such money"], relation="CURRENCY")
    alias = query(
        "The name of the head of state of the French Republic is", ["Emmanuel Macron", "Macron", "M"],
        target_ids=[MACRON],
    )  # fmt: skip
    spouse = query(
        "The name of the spouse of the head of state of France is", ["Brigitte Macron"], relation="HEAD_OF_STATE",
        query_type="two_hop", second_relation="SPOUSE", second_hop_target_ids=["Q1"],
    )  # fmt: skip
    tongues = query("The official language of France is", ["French"], ["Breton", "Brezhoneg"], relation="LANGUAGE")
    record = {
        "example_type": "popular",
        "edit": {
            "prompt": "The name of the head of state of France is Emmanuel Macron.", "subject_id": FRANCE,
            "relation": "HEAD_OF_STATE", "target_id": MACRON,
            "original_fact": {
                "prompt": "The name of the head of state of France is François Hollande.", "subject_id": FRANCE,
                "relation": "HEAD_OF_STATE", "target_id": HOLLANDE,
            },
        },
        "Relation_Specificity": [test_of(capital, conditions=(capital,)), test_of(capital, conditions=(currency,))],
        "Logical_Generalization": [test_of(spouse, alias), test_of(capital, tongues, how="AND")],
        "Subject_Aliasing": [test_of(alias)],
        "Compositionality_I": [test_of(spouse), test_of(query("The vitamin is", ["C"]))],
        "Compositionality_II": [],
        "Forgetfulness": [test_of()],
    }  # fmt: skip
    return record | changes


def hop(cloze: str, answer: str, *aliases: str) -> dict[str, Any]:
    return {"question": f"Which is it: {cloze}?", "cloze": cloze, "answer": answer, "answer_alias": list(aliases)}


def rewrite(prompt: str, subject: str, new: str, old: str) -> dict[str, Any]:
    return {
        "prompt": prompt, "relation_id": "P1", "target_new": {"str": new, "id": "Q2"},
        "target_true": {"str": old, "id": "Q3"}, "subject": subject, "question": f"What of {subject}?",
    }  # fmt: skip


def mquake(**changes: Any) -> dict[str, Any]:
    """Two rewrites that move the capital of the country whose head of state is somebody."""
    record = {
        "case_id": 7,
        "requested_rewrite": [
            rewrite("{} is the head of state of", "Emmanuel Macron", "Germany", "France"),
            rewrite("The capital of {} is", "Germany", "Lyon", "Berlin"),
        ],
        "questions": ["What is the capital of the country that Emmanuel Macron leads?", "Macron's capital is which?"],
        "answer": "Paris", "answer_alias": ["City of Light"], "new_answer": "Lyon", "new_answer_alias": ["Lugdunum"],
        "single_hops": [
            hop("Emmanuel Macron is the head of state of", "France"), hop("The capital of France is", "Paris"),
        ],
        "new_single_hops": [
            hop("Emmanuel Macron is the head of state of", "Germany", "Deutschland"),
            hop("The capital of Germany is", "Lyon", "Lugdunum"),
        ],
        "orig": {"triples": [["Q1", "P35", "Q142"]], "edit_triples": [["Q1", "P35", "Q183"]]},
    }  # fmt: skip
    return record | changes
