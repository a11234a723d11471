"""The look at a data set through a tokenizer, on hand-made statements and small byte-level tokenizers."""

import polars as pl
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from anachron.core.errors import ModelError
from anachron.core.periods import Period
from anachron.data.columns import STATEMENT_SCHEMA
from anachron.lm.formats import Format
from anachron.probe.audit import audit

QUESTION = "who was the mayor of Springfield?"
CHECKS = ("unscorable", "too_long", "straddling", "answer_in_prompt", "repeated", "status_differs", "alpha_differs")


def byte_level(model, bos=0, **options):
    """A tokenizer over bytes, with so many start-of-text tokens."""
    core = Tokenizer(model)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<s>"])
    if bos:
        core.post_processor = processors.TemplateProcessing(
            single=" ".join(["<s>"] * bos + ["$A"]), special_tokens=[("<s>", core.token_to_id("<s>"))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", **options)


def trained(bos=0, **options):
    """Byte-pair encoding learnt from a few questions, word by word."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator([f"In {year}, {QUESTION} Quimby" for year in range(1990, 2000)], trainer)
    tokenizer = byte_level(core.model, bos, **options)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def merging(*merges):
    """Bytes, and the merges given: (left, right) in the byte-level alphabet, where a space is written Ġ."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*alphabet, *(a + b for a, b in merges)])}
    return byte_level(models.BPE(vocab=vocabulary, merges=list(merges)))


def statement(prompt, answer="Quimby", **values):
    row = {
        "fact_id": "f", "subject_label": "Springfield", "object_label": answer, "start": "1990", "end": "1995",
        "granularity": "year", "time": "1991", "status": "correct", "prompt": prompt, "answer": answer,
    } | values  # fmt: skip
    if row["time"] is not None and "alpha" not in row:
        row["alpha"] = Period(row["start"], row["end"]).alpha(row["time"])
    return row


def statements(*rows):
    return pl.DataFrame([dict.fromkeys(STATEMENT_SCHEMA) | row for row in rows], schema=STATEMENT_SCHEMA)


def counts(found):
    """The checks that found something."""
    return {name: getattr(found, name) for name in CHECKS if getattr(found, name)}


def clean():
    return [statement(f"In {year}, {QUESTION}", time=str(year)) for year in (1990, 1991, 1992)]


def test_nothing_to_find():
    tokenizer = trained(bos=1)
    found = audit(statements(*clean(), statement(f"In 1990, {QUESTION}", "Burns", fact_id="g", time="1990")), tokenizer)
    assert counts(found) == {}
    assert found.examples == {}
    assert (found.statements, found.facts) == (4, 2)
    assert found.bos == {1: 4}
    assert tokenizer.tokenize(" Quimby") == ["ĠQuimby"]
    assert tokenizer.tokenize(" Burns") == ["Ġ", *"Burns"]  # here the space is no part of the answer
    assert found.answer_tokens == (3 * 1 + 5) / 4
    assert found.longest == max(len(tokenizer(f"In 1990, {QUESTION} {a}")["input_ids"]) for a in ("Quimby", "Burns"))


@pytest.mark.parametrize("bos", [0, 1, 2])
def test_start_tokens_are_counted(bos):
    assert audit(statements(*clean()), trained(bos)).bos == {bos: 3}


def test_a_template_may_open_every_turn_with_the_start_token():
    tokenizer = trained(0)
    tokenizer.chat_template = (
        "{{ bos_token }}system\nBe brief.{% for m in messages %}{{ bos_token }}{{ m.content }}\n{% endfor %}"
    )
    found = audit(statements(*clean()), tokenizer, style=Format(kind="chat"))
    assert found.bos == {1: 3}
    tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    assert audit(statements(*clean()), tokenizer, style=Format(kind="chat")).bos == {2: 3}


def test_answer_in_prompt():
    given_away = statement("In 1993, was QUIMBY the mayor of Springfield?", time="1993")
    found = audit(statements(*clean(), given_away), trained())
    assert counts(found) == {"answer_in_prompt": 1}
    assert found.examples == {"answer_in_prompt": ["In 1993, was QUIMBY the mayor of Springfield? Quimby"]}


@pytest.mark.parametrize("name", ["Qui\u00admby", "Qui\u200bmby", "QUIMBY\u200e"])
def test_an_answer_in_a_prompt_in_another_spelling(name: str):
    given_away = statement(f"In 1993, was {name} the mayor of Springfield?", time="1993")
    assert counts(audit(statements(*clean(), given_away), trained())) == {"answer_in_prompt": 1}


def test_repeated_texts_but_not_those_without_a_date():
    undated = [statement(QUESTION, granularity=g, time=None, status="none") for g in ("year", "month", "day")]
    assert counts(audit(statements(*clean(), *undated), trained())) == {}
    found = audit(statements(*clean(), clean()[0] | {"fact_id": "g"}), trained())
    assert counts(found) == {"repeated": 1}
    assert found.examples == {"repeated": [f"In 1990, {QUESTION} Quimby"]}


def test_too_long_by_argument_or_by_the_tokenizer():
    table = statements(*clean(), statement(f"In 1993, at long last, {QUESTION}", time="1993"))
    longest = audit(table, trained()).longest
    assert counts(audit(table, trained(), context_length=longest)) == {}
    limits = [({}, longest - 1), ({"model_max_length": longest - 1}, None)]
    for options, limit in limits:
        found = audit(table, trained(**options), context_length=limit)
        assert counts(found) == {"too_long": 1}
        assert found.examples["too_long"] == [f"{longest} tokens: In 1993, at long last, {QUESTION} Quimby"]


def test_status_that_does_not_follow_from_the_dates():
    rows = [
        statement(f"In 1997, {QUESTION}", time="1997", status="correct"),
        statement(f"In 1994, {QUESTION}", time="1994", status="discarded"),  # not judged: its year decides
    ]
    found = audit(statements(*clean(), *rows), trained())
    assert counts(found) == {"status_differs": 1}
    assert found.examples["status_differs"] == [
        "Springfield, Quimby [1990, 1995]: 1997 is correct, by its dates incorrect"
    ]


def test_alpha_that_does_not_follow_from_the_dates():
    near, far = (statement(f"In 1993, {QUESTION}", time="1993", alpha=0.1 + by) for by in (0.0, 0.3))
    by_dates = Period("1990", "1995").alpha("1993")
    found = audit(statements(near | {"alpha": by_dates + 0.009}, far | {"alpha": by_dates + 0.011}), trained())
    assert found.alpha_differs == 1
    assert found.examples["alpha_differs"] == [
        f"Springfield, Quimby [1990, 1995]: 1993 has {by_dates + 0.011}, by its dates {by_dates:.3f}"
    ]


def test_status_follows_the_boundary_convention():
    table = statements(*clean())
    assert counts(audit(table, trained(), boundaries="released")) == {}
    found = audit(table, trained(), boundaries="paper")
    assert counts(found) == {"status_differs": 1, "alpha_differs": 3}  # coarse boundaries have another middle
    assert "1990 is correct, by its dates transitional" in found.examples["status_differs"][0]


def test_a_period_without_an_alpha_is_judged_by_its_status_alone():
    one_day = {"start": "1990-05-03", "end": "1990-05-03", "granularity": "day"}
    open_end = {"start": "1990", "end": None, "fact_id": "g"}
    rows = [
        statement(f"On May 3, 1990, {QUESTION}", time="1990-05-03", alpha=0.0, **one_day),
        statement(f"On May 4, 1990, {QUESTION}", time="1990-05-04", alpha=1.0, **one_day),
        statement(f"In 2011, {QUESTION}", time="2011", alpha=0.0, **open_end),
    ]
    found = audit(statements(*rows), trained())
    assert counts(found) == {"status_differs": 1}
    assert "1990-05-04 is correct, by its dates incorrect" in found.examples["status_differs"][0]
    assert audit(statements(rows[2]), trained(), boundaries="paper").alpha_differs == 0


def test_straddling_needs_more_than_white_space():
    table = statements(*clean())
    with_space = merging(("Ġ", "Q"))
    assert audit(table, with_space).answer_tokens == 6  # the token of Q takes the space along
    assert counts(audit(table, with_space)) == {}
    with_mark = merging(("?", "Ġ"), ("?Ġ", "Q"))
    found = audit(table, with_mark)
    assert counts(found) == {"straddling": 3}
    assert found.examples["straddling"][0] == f"In 1990, {QUESTION} Quimby"
    assert counts(audit(table, merging(("?", "Ġ")))) == {}  # '? ' ends where the answer begins


def test_unscorable_pairs_are_left_out_of_the_averages():
    rows = [statement("", time="1993"), statement(f"In 1994, {QUESTION}", " Quimby", time="1994")]
    found = audit(statements(*clean(), *rows), trained())
    assert found.unscorable == 2
    assert found.examples["unscorable"][0].startswith("empty prompt before the answer 'Quimby'")
    assert found.examples["unscorable"][1].startswith("answer ' Quimby' is empty or has white space around it")
    assert found.answer_tokens == audit(statements(*clean()), trained()).answer_tokens


def test_answer_without_a_token_before_it_is_unscorable():
    whole = merging(("?", "Ġ"), ("?Ġ", "Q"))
    found = audit(statements(*clean(), statement("?", "Q", time="1993")), whole)
    assert found.unscorable == 1
    assert found.examples["unscorable"][0].startswith("no token precedes the answer in '? Q'")
    assert sum(found.bos.values()) == 3


def test_only_a_few_examples_are_kept():
    rows = [statement(f"In {year}, {QUESTION}", time=str(year), status="incorrect") for year in range(1990, 1996)]
    found = audit(statements(*rows), trained())
    assert found.status_differs == 6
    assert len(found.examples["status_differs"]) == 3
    assert found.as_dict()["status_differs"] == 6


def test_chat_format_counts_the_template():
    tokenizer = trained(bos=1)
    with pytest.raises(ModelError, match="no chat template"):
        audit(statements(*clean()), tokenizer, style=Format("chat"))
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    found = audit(statements(*clean()), tokenizer, style=Format("chat"))
    assert found.bos == {1: 3}  # the template's own, and none on top
    assert counts(found) == {}
    assert found.longest > audit(statements(*clean()), tokenizer).longest


def test_prefix_lengthens_texts_and_is_no_part_of_the_question():
    found = audit(statements(*clean()), trained(), style=Format(prefix="Quimby is mentioned here.\n"))
    assert counts(found) == {}
    assert found.longest > audit(statements(*clean()), trained()).longest
