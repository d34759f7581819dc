"""kwire's standard authorizer decides as Apache Kafka's own class.

No broker runs: one Java process answers questions about random sets of entries (Authorizations.java). QUESTIONS=1000
asks 1000 questions, from seed SEED=7 on.
"""

import os
from functools import partial
from random import Random

import pytest

from compat_tests.authorizer.judging import kafkas_answers
from compat_tests.harness.seeds import check_no_differences
from kwire.cluster.security.standard_authorizer import AuthorizerSettings, StandardAuthorizer
from tests.cluster.security.acl_oracle import draw_acl, draw_question

PER_SEED = 25
COUNT = int(os.environ.get("QUESTIONS", "25000")) // PER_SEED
SHORT_COUNT = 100
FIRST_SEED = int(os.environ.get("SEED", "1"))
WITHOUT_NAME = 4
"""Elements of a question about any resource of a type."""


def drawn_case(seed):
    random = Random(seed)
    super_users = random.choice(((), ("User:b",), ("User:b", "Group:a")))
    acls = [draw_acl(random) for _ in range(random.choice((0, 1, 3, 10, 40)))]
    questions = [draw_question(random) for _ in range(PER_SEED)]
    questions = [question[: random.choice((5, 5, WITHOUT_NAME))] for question in questions]
    return super_users, random.random() < 0.3, list(dict.fromkeys(acls)), questions


def answers_of_kwire(super_users, allows_without, acls, questions):
    settings = AuthorizerSettings(super_users=";".join(super_users), allows_without_acl=allows_without)
    authorizer = StandardAuthorizer(settings)
    authorizer.change((), acls)
    authorizer.ready()
    return [
        authorizer.allows_any(*each) if len(each) == WITHOUT_NAME else authorizer.allows(*each) for each in questions
    ]


def differences(seeds, directory):
    """Yield (seed, difference) for the questions of these seeds."""
    cases = [drawn_case(seed) for seed in seeds]
    for seed, case, theirs in zip(seeds, cases, kafkas_answers(cases, directory), strict=True):
        for question, ours, expected in zip(case[3], answers_of_kwire(*case), theirs, strict=True):
            if ours != expected:
                yield seed, f"{question}: kwire {ours}, Kafka {expected}; entries {case[2]}, {case[:2]}"


def compare(count, directory):
    check_no_differences(partial(differences, directory=directory), FIRST_SEED, count, "decisions", chunk=500)


@pytest.mark.short
def test_a_few_decisions_match_kafkas(tmp_path):
    compare(SHORT_COUNT, tmp_path)


def test_row_23_to_25_decisions_match_kafkas(tmp_path):
    compare(COUNT, tmp_path)
