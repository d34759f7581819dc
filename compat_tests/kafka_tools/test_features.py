"""kafka-features: the finalised features and their levels, upgrades and downgrades."""

import re

FEATURES = "kafka-features"
LINE = re.compile(
    r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
)


def test_finalised_features_are_at_kafkas_level(both):
    answers = both.run_each(FEATURES, "describe")
    ours, theirs = [{name: rest for name, *rest in LINE.findall(ran.output)} for ran in (answers[0], answers[-1])]
    assert "group.version" in theirs
    assert ours.keys() == theirs.keys()
    for name, (_, highest, finalised) in ours.items():
        assert [highest, finalised] == theirs[name][1:]


def test_version_mapping_and_feature_dependencies_are_printed(both):
    assert "metadata.version=30 (4.3-IV0)" in both.run(FEATURES, "version-mapping").lines
    asked = both.run(FEATURES, "feature-dependencies", "--feature", "group.version=1")
    assert asked.lines == ["group.version=1 has no dependencies."]


def test_an_upgrade_to_the_current_level_is_accepted(both):
    planned = both.run(FEATURES, "upgrade", "--feature", "metadata.version=30", "--dry-run")
    assert planned.lines == ["metadata.version can be upgraded to 30."]


def test_a_downgrade_of_metadata_is_rejected(both):
    before_colon = lambda text: text.partition(" to 20.")[0]  # noqa: E731 - the messages differ
    rejected = both.run(
        FEATURES, "downgrade", "--feature", "metadata.version=20", "--dry-run", status=1, change=before_colon
    )
    assert rejected.output.startswith("Can not downgrade metadata.version to 20.")


def test_an_unknown_feature_is_rejected(both):
    rejected = both.run(FEATURES, "upgrade", "--feature", "nope=1", "--dry-run", status=1)
    assert "Can not upgrade nope to 1." in rejected.output
