"""Settings of a session: those that the user has given stay."""

from spark_jobs import session


def test_settings_of_spark_defaults_are_read(tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text("spark.master  spark://host:7077\n# a comment\nspark.cores.max=4\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert session.given_settings() == {"spark.master": "spark://host:7077", "spark.cores.max": "4"}


def test_without_a_file_nothing_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert session.given_settings() == {}
