"""A question's options have numbers; a number that is typed means its option and nothing else."""

import pytest

from minara_gateway.asking import Question, question_of

WHICH = Question(text="Which one?", options=("ETH", "BTC", "none of them"))


def test_options_stand_under_the_question_with_their_numbers() -> None:
    assert WHICH.rendered == "Which one?\n1. ETH\n2. BTC\n3. none of them"
    assert Question(text="How much?").rendered == "How much?"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("1", "ETH"),
        (" 3 ", "none of them"),
        ("0", "0"),
        ("4", "4"),
        ("1.5", "1.5"),
        ("-1", "-1"),
        ("２", "２"),
        ("9" * 5_000, "9" * 5_000),
        ("ETH", "ETH"),
        ("", ""),
    ],
)
def test_a_number_means_its_option(typed: str, meant: str) -> None:
    assert WHICH.answer(typed) == meant


def test_without_options_a_number_is_a_number() -> None:
    assert Question(text="How much?").answer("1") == "1"


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ('{"question": "How much?"}', Question(text="How much?")),
        ('{"question": "So?", "options": ["a", 7, "b"]}', Question(text="So?", options=("a", "b"))),
        ('{"question": "So?", "options": "ab"}', Question(text="So?")),
        ('{"question": " "}', None),
        ('{"question": 7}', None),
        ("[]", None),
        ('{"question": ', None),
    ],
)
def test_a_question_is_read_from_whatever_a_model_wrote(
    arguments: str, question: Question | None
) -> None:
    assert question_of(arguments) == question
