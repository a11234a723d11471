"""The columns of update data sets: one row a group (subject, relation) whose objects changed between two dates."""

from typing import Any

import polars as pl

TEXT = pl.String()
ENTITY = pl.Struct({"id": TEXT, "label": TEXT, "description": TEXT})
_DECISION = pl.Struct({"decision": TEXT, "rule": pl.UInt8(), "start": TEXT, "end": TEXT, "point_in_time": TEXT})
OBJECT = pl.Struct([*ENTITY.fields, *_DECISION.fields])
_ASKED = pl.List(pl.Struct({"object": ENTITY, "prompt": TEXT}))
NEIGHBOUR = pl.Struct({"subject": ENTITY, "dist": pl.Float64(), "popularity": pl.Float64(), "objects": _ASKED})
# The published columns, then ours.
UPDATES_SCHEMA: dict[str, Any] = {
    "case_id": pl.Int64,
    "subject": ENTITY,
    "relation": ENTITY,
    "update_prompt": TEXT,
    "generalization_prompts": pl.List(TEXT),
    "subject_is_ph_new": pl.Boolean,
    "relation_is_temp_func": pl.Boolean,
    "is_replace": pl.Boolean,
    "subject_popularity": pl.Float64,
    "objects": pl.List(OBJECT),
    "neighborhood": pl.List(NEIGHBOUR),
    "random_neighborhood": pl.List(NEIGHBOUR),
    "scenario": TEXT,
    "past_generalization_prompts": pl.List(TEXT),
    "question_templates": pl.List(TEXT),
}
