"""Portuguese questions about well-known subjects, as they are said: articles, contractions, and what has no article."""

import pytest

from anachron.text.agreement import in_phrase
from anachron.text.languages import language_of

QUESTIONS = [
    ("P36", 0, "Brasil", "qual era a capital do Brasil?"),
    ("P36", 0, "Portugal", "qual era a capital de Portugal?"),
    ("P36", 0, "França", "qual era a capital da França?"),
    ("P36", 0, "Estados Unidos", "qual era a capital dos Estados Unidos?"),
    ("P36", 0, "Reino Unido", "qual era a capital do Reino Unido?"),
    ("P36", 0, "Filipinas", "qual era a capital das Filipinas?"),
    ("P36", 0, "Moçambique", "qual era a capital de Moçambique?"),
    ("P36", 0, "República Democrática do Congo", "qual era a capital da República Democrática do Congo?"),
    ("P36", 0, "Emirados Árabes Unidos", "qual era a capital dos Emirados Árabes Unidos?"),
    ("P36", 0, "Minas Gerais", "qual era a capital de Minas Gerais?"),
    ("P36", 0, "Bahia", "qual era a capital da Bahia?"),
    ("P36", 0, "Rio Grande do Sul", "qual era a capital do Rio Grande do Sul?"),
    ("P35", 1, "Angola", "quem exercia a chefia do Estado em Angola?"),
    ("P35", 1, "Israel", "quem exercia a chefia do Estado em Israel?"),
    ("P35", 1, "Irã", "quem exercia a chefia do Estado no Irã?"),
    ("P35", 1, "Cuba", "quem exercia a chefia do Estado em Cuba?"),
    ("P35", 1, "Países Baixos", "quem exercia a chefia do Estado nos Países Baixos?"),
    ("P35", 0, "Império do Brasil", "quem era o chefe ou a chefe de Estado do Império do Brasil?"),
    ("P6", 1, "Rio de Janeiro", "quem estava à frente do governo do Rio de Janeiro?"),
    ("P6", 1, "Porto", "quem estava à frente do governo do Porto?"),
    ("P6", 1, "Lisboa", "quem estava à frente do governo de Lisboa?"),
    ("P6", 1, "Cidade do México", "quem estava à frente do governo da Cidade do México?"),
    ("P38", 2, "Índia", "com que moeda se pagava na Índia?"),
    ("P38", 2, "Bahamas", "com que moeda se pagava nas Bahamas?"),
    ("P85", 1, "União Soviética", "que música servia de hino à União Soviética?"),
    ("P85", 1, "Japão", "que música servia de hino ao Japão?"),
    ("P85", 1, "Camarões", "que música servia de hino aos Camarões?"),
    ("P85", 1, "Maldivas", "que música servia de hino às Maldivas?"),
    ("P17", 2, "rio Tejo", "que país tinha jurisdição sobre o rio Tejo?"),
    ("P17", 2, "Crimeia", "que país tinha jurisdição sobre a Crimeia?"),
    ("P17", 2, "Rio Branco", "que país tinha jurisdição sobre Rio Branco?"),
    ("P17", 2, "Castelo Branco", "que país tinha jurisdição sobre Castelo Branco?"),
    ("P17", 2, "castelo de São Jorge", "que país tinha jurisdição sobre o castelo de São Jorge?"),
    ("P159", 0, "Universidade de Oxford", "onde ficava a sede da Universidade de Oxford?"),
    ("P159", 0, "Banco Central Europeu", "onde ficava a sede do Banco Central Europeu?"),
    ("P159", 0, "Supremo Tribunal Federal", "onde ficava a sede do Supremo Tribunal Federal?"),
    ("P159", 0, "Kodiak", "onde ficava a sede da organização Kodiak?"),
    ("P169", 0, "Petrobras", "quem era o diretor executivo ou a diretora executiva da Petrobras?"),
    ("P169", 0, "eBay", "quem era o diretor executivo ou a diretora executiva do eBay?"),
    ("P169", 0, "Ford Motor Company", "quem era o diretor executivo ou a diretora executiva da Ford Motor Company?"),
    ("P169", 0, "Zyxel", "quem era o diretor executivo ou a diretora executiva da empresa Zyxel?"),
    ("P488", 2, "Partido dos Trabalhadores", "quem presidia o Partido dos Trabalhadores?"),
    ("P488", 2, "Assembleia da República", "quem presidia a Assembleia da República?"),
    ("P488", 2, "Fianna Fáil", "quem presidia a organização Fianna Fáil?"),
    ("P286", 0, "Seleção Brasileira de Futebol", "quem treinava a Seleção Brasileira de Futebol?"),
    ("P286", 0, "Arsenal F.C.", "quem treinava o Arsenal F.C.?"),
    ("P286", 0, "Real Madrid", "quem treinava o Real Madrid?"),
    ("P286", 0, "Ararat Yerevan", "quem treinava a equipe Ararat Yerevan?"),
    ("P115", 2, "Dallas Cowboys", "que recinto acolhia os jogos em casa do Dallas Cowboys?"),
    ("P127", 0, "The Times", "quem detinha a propriedade do bem ou da entidade The Times?"),
    ("P127", 2, "Land Rover", "que pessoa ou organização possuía a Land Rover?"),
    ("P371", 0, "Jornal Nacional", "quem apresentava o programa Jornal Nacional?"),
    ("P1308", 0, "presidente do Brasil", "quem ocupava o cargo de presidente do Brasil?"),
    ("P1308", 0, "Rainha da Dinamarca", "quem ocupava o cargo de Rainha da Dinamarca?"),
    ("P1308", 0, "ministra da Saúde de Portugal", "quem ocupava o cargo de ministra da Saúde de Portugal?"),
    ("P263", 1, "presidente da França", "que edifício servia de residência oficial ao presidente da França?"),
    ("P263", 1, "rainha da Dinamarca", "que edifício servia de residência oficial à rainha da Dinamarca?"),
    ("P1037", 2, "11.º Exército", "que pessoa estava à frente do 11.º Exército?"),
    ("P1037", 0, "Museu do Louvre", "quem dirigia o Museu do Louvre?"),
    ("P126", 0, "Ponte 25 de Abril", "quem assegurava a manutenção da Ponte 25 de Abril?"),
    ("P39", 0, "Angela Merkel", "que cargo ocupava Angela Merkel?"),
    ("P54", 0, "Cristiano Ronaldo", "em que equipe jogava Cristiano Ronaldo?"),
    ("P26", 0, "Rainha Vitória", "quem era o marido ou a esposa da Rainha Vitória?"),
    ("P263", 0, "o presidente do Chile", "qual era a residência oficial do presidente do Chile?"),
    ("P159", 0, "O Globo", "onde ficava a sede da organização O Globo?"),
]  # fmt: skip


@pytest.mark.parametrize(("relation", "number", "subject", "question"), QUESTIONS)
def test_a_question_is_worded_as_it_is_said(relation: str, number: int, subject: str, question: str) -> None:
    portuguese = language_of("pt")
    assert portuguese.question(portuguese.relations[relation].questions[number], subject) == question


@pytest.mark.parametrize(
    ("subject", "opened"),
    [
        ("Brasil", "pelo Brasil"), ("Guerra Junqueiro", "por Guerra Junqueiro"), ("Alemanha", "pela Alemanha"),
        ("Primeira Guerra Mundial", "pela Primeira Guerra Mundial"), ("Campo Grande", "por Campo Grande"),
        ("Real Academia Espanhola", "pela Real Academia Espanhola"), ("Forças Armadas", "pelas Forças Armadas"),
        ("Sevilla FC Puerto Rico", "pelo Sevilla FC Puerto Rico"), ("EUA", "pelos EUA"), ("", "por "),
        ("museu de Évora", "pelo museu de Évora"), ("monte Fuji", "pelo monte Fuji"), ("O Porto", "por O Porto"),
        ("os Açores", "pelos Açores"), ("Açores", "pelos Açores"), ("The Who Records", "por The Who Records"),
    ],
)  # fmt: skip
def test_a_name_joins_the_preposition_before_it(subject: str, opened: str) -> None:
    assert "".join(in_phrase("por ", subject, "Portuguese")) == opened


def test_an_article_is_put_before_a_name_where_nothing_contracts() -> None:
    for before in ("com ", "sobre ", "que país abriga "):
        assert in_phrase(before, "Brasil", "Portuguese") == (before, "o Brasil")
        assert in_phrase(before, "Cuba", "Portuguese") == (before, "Cuba")
    assert in_phrase("", "Brasil", "Portuguese") == ("", "O Brasil")


def test_what_a_subject_is_called_gives_way_only_as_whole_words() -> None:
    assert in_phrase("quem dirige a empresa ", "Boeing", "Portuguese") == ("quem dirige ", "a Boeing")
    assert in_phrase("sede da empresa ", "Boeing", "Portuguese") == ("sede da ", "Boeing")
    assert in_phrase("o cargo de ", "Banco do Brasil", "Portuguese") == ("o cargo de ", "Banco do Brasil")
