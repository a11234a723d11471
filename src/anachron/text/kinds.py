"""What kind of thing a name stands for, in a few plain words: from a relation, or from an entity's classes in Wikidata.

`anachron.text.articles` asks for it, since a person takes no "the" and a river does.
"""

from collections.abc import Iterable

KINDS = (
    "band", "building", "company", "country", "currency", "event", "line", "model", "office", "organisation",
    "periodical", "person", "place", "ship", "software", "team", "title", "water", "work",
)  # fmt: skip
_RELATIONS = {
    # a title is an office that stands behind "the office of" or "served as"
    "title": "P1308",
    "person": "P19 P20 P21 P22 P25 P26 P27 P39 P40 P69 P97 P102 P103 P106 P108 P119 P184 P410 P412 P413 P450 P451 P54"
    " P551 P611 P734 P735 P768 P802 P803 P937 P1066 P1412 P1971 P2632 P3373 P4100",
    "team": "P115 P286 P634 P831",
    "band": "P264",
    "company": "P113 P114 P414",
    "currency": "P562",
    "place": "P81 P197 P1376",
    "water": "P403",
    "ship": "P532",
    "work": "P57 P58 P344 P364 P371 P449 P725",
}
_CLASSES = {
    "person": "Q5 Q15632617 Q95074",
    "band": "Q215380 Q5741069 Q2088357",
    "building": "Q41176 Q33506 Q12280 Q23413 Q16970 Q2977 Q483110 Q12518 Q811979 Q11303",
    "company": "Q4830453 Q783794 Q6881511 Q891723 Q46970 Q22687 Q18127",
    "country": "Q6256 Q3624078 Q3024240 Q7275 Q48349 Q417175",
    "currency": "Q8142 Q28783456",
    "event": "Q1656682 Q198 Q178561 Q40231 Q132241",
    "line": "Q728937 Q34442 Q46622",
    "model": "Q3231690 Q15056993",
    "office": "Q4164871 Q294414",
    "organisation": "Q43229 Q7278 Q3918 Q3914 Q9826 Q189004 Q484652 Q163740 Q11204 Q192350",
    "periodical": "Q11032 Q1110794 Q41298 Q5633421 Q1002697",
    "place": "Q515 Q3957 Q532 Q486972 Q1549591 Q5119 Q8502 Q23442 Q35657 Q55488 Q1248784 Q747074 Q484170 Q262166",
    "ship": "Q11446 Q174736 Q182531 Q17205 Q2811 Q39804",
    "software": "Q7397 Q166142 Q9135 Q9143 Q341 Q35127",
    "team": "Q12973014 Q847017 Q476028 Q13393265 Q17156793 Q4498974 Q6979593",
    "water": "Q4022 Q165 Q9430 Q12284 Q37901 Q23397 Q39594",
    "work": "Q11424 Q5398426 Q7889 Q482994 Q7725634 Q571 Q7366 Q15416 Q8261 Q47461344 Q3305213",
}
_OF_RELATION = {id: kind for kind, ids in _RELATIONS.items() for id in ids.split()}
_OF_CLASS = {id: kind for kind, ids in _CLASSES.items() for id in ids.split()}


def kind_of(classes: Iterable[str]) -> str | None:
    """What an entity is, by Wikidata's ids of what it is an instance of (P31); None where they tell nothing, or two."""
    found = {_OF_CLASS[id] for id in classes if id in _OF_CLASS}
    return found.pop() if len(found) == 1 else None


def subject_kind(relation_id: str | None, known: str | None = None) -> str | None:
    """What a subject is: what all subjects of its relation are, else what is known of it by its classes."""
    return _OF_RELATION.get(relation_id or "", known)
