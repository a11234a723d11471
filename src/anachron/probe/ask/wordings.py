"""How questions to a chat model are worded, in each language that has templates; the words of those who decline."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wordings:
    """What is put to a model, with the slots ``{question}``, ``{answer}``, ``{first}``, ``{second}``.

    open: a question that is to be answered with a name. choice: which of two years an answer was right in. period: from
    when to when it was.
    """

    open: str
    choice: str
    period: str


WORDINGS = {
    "English": Wordings(
        "{question}\nReply with the full name only. If you do not know, reply: unknown",
        "Question: {question}\nAnswer: {answer}\n"
        "In which year was that the right answer, {first} or {second}? Reply with the year only.",
        "Question: {question}\nAnswer: {answer}\n"
        "From when to when was that the right answer? Reply with two dates only, as YYYY-MM-DD to YYYY-MM-DD or as "
        "YYYY to YYYY. If it still is, reply with: YYYY-MM-DD to today",
    ),
    "French": Wordings(
        "{question}\nRépondez par le nom complet seulement. Si vous ne savez pas, répondez : inconnu",
        "Question : {question}\nRéponse : {answer}\n"
        "En quelle année cette réponse était-elle juste, {first} ou {second} ? Répondez par l'année seulement.",
        "Question : {question}\nRéponse : {answer}\n"
        "De quand à quand cette réponse était-elle juste ? Répondez par deux dates seulement, sous la forme AAAA-MM-JJ "
        "à AAAA-MM-JJ ou AAAA à AAAA. Si elle l'est encore, répondez : AAAA-MM-JJ à aujourd'hui",
    ),
    "German": Wordings(
        "{question}\nAntworte nur mit dem vollen Namen. Wenn du es nicht weißt, antworte: unbekannt",
        "Frage: {question}\nAntwort: {answer}\n"
        "In welchem Jahr war diese Antwort richtig, {first} oder {second}? Antworte nur mit dem Jahr.",
        "Frage: {question}\nAntwort: {answer}\n"
        "Von wann bis wann war diese Antwort richtig? Antworte nur mit zwei Daten, als JJJJ-MM-TT bis JJJJ-MM-TT oder "
        "als JJJJ bis JJJJ. Wenn sie es noch ist, antworte: JJJJ-MM-TT bis heute",
    ),
    "Spanish": Wordings(
        "{question}\nResponde solo con el nombre completo. Si no lo sabes, responde: desconocido",
        "Pregunta: {question}\nRespuesta: {answer}\n"
        "¿En qué año era correcta esa respuesta, {first} o {second}? Responde solo con el año.",
        "Pregunta: {question}\nRespuesta: {answer}\n"
        "¿Desde cuándo hasta cuándo era correcta esa respuesta? Responde solo con dos fechas, como AAAA-MM-DD a "
        "AAAA-MM-DD o AAAA a AAAA. Si todavía lo es, responde: AAAA-MM-DD a hoy",
    ),
}

# Whole words of an answer, as `anachron.probe.ask.matching.plain` writes them, by which somebody declines to give one.
DECLINING = (
    "unknown", "i do not know", "i don t know", "i m not sure", "i am not sure", "i cannot", "i can t", "i am unable",
    "i m unable", "i m sorry", "i am sorry", "not possible to determine", "cannot be determined", "no information",
    "not enough information", "as an ai", "inconnu", "inconnue", "je ne sais pas", "je ne peux pas", "je suis desole",
    "je suis desolee", "unbekannt", "ich weiss nicht", "ich weiss es nicht", "ich kann nicht", "tut mir leid",
    "desconocido", "desconocida", "no lo se", "no se", "no puedo", "lo siento",
)  # fmt: skip
STILL = (
    "today", "present", "the present", "now", "ongoing", "current", "currently", "aujourd hui", "present", "maintenant",
    "heute", "jetzt", "hoy", "presente", "actualidad", "ahora",
)  # fmt: skip
# By which the date is told on which something is said to be so.
AS_OF = (
    "as of", "i e", "stand", "status", "etat", "a la date de", "c est a dire", "d h", "das heisst", "es decir",
    "a fecha de",
)  # fmt: skip
# Before a name or a year: that it is none.
DENYING = frozenset((
    "not", "no", "never", "neither", "nor", "t", "isn", "nicht", "kein", "keine", "nie", "niemals", "weder", "pas",
    "jamais", "ni", "ne", "nunca", "tampoco",
))  # fmt: skip
# Behind a name or a year: that it is none ("1998 is not correct").
DENYING_BEHIND = (
    "is not", "isn t", "was not", "wasn t", "is wrong", "was wrong", "is incorrect", "was incorrect", "ist nicht",
    "war nicht", "ist falsch", "war falsch", "war es nicht", "n est pas", "n etait pas", "est faux", "est fausse",
    "est incorrect", "est incorrecte", "no es", "no era", "no fue", "es incorrecto", "es incorrecta", "es falso",
)  # fmt: skip
# Words that deny nothing, though some of them do by themselves.
ASSURING = (
    "not mistaken", "no doubt", "no other than", "nach wie vor", "nicht irre", "nicht tausche", "kein anderer als",
    "keine andere als", "ne me trompe pas", "n est ce pas", "no me equivoco", "no hay duda", "ni mas ni menos que",
    "no es otro que", "no es otra que", "no era otro que", "no era otra que", "no otro que", "vor allem", "avant tout",
    "d apres",
)  # fmt: skip
BUT = frozenset(("but", "rather", "instead", "sondern", "aber", "mais", "plutot", "sino", "pero"))
# Beside a name: that another person is spoken of.
RELATED = frozenset((
    "predecessor", "successor", "preceded", "succeeded", "vorganger", "vorgangerin", "nachfolger",
    "nachfolgerin", "predecesseur", "successeur", "predecesor", "predecesora", "sucesor", "sucesora",
))  # fmt: skip
# Before a name or a year: that another one is meant.
BESIDE = frozenset(("before", "after", "vor", "nach", "avant", "apres", "antes", "despues", "until", "bis"))


def wordings_of(language: str) -> Wordings:
    """The wordings of a language by its English name; the English ones where there are none."""
    return WORDINGS.get(language, WORDINGS["English"])
