"""Tables of the pipeline in every format: batches once, owners, columns that are added, maintenance."""

import pytest

from spark_jobs import versions
from spark_jobs.pipeline.config import ConfigError, Tables
from spark_jobs.pipeline.tables.formats import own_session, table
from spark_jobs.pipeline.tables.table import Batch

QUERY = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"


@pytest.fixture(params=versions.formats())
def opened(request, spark, tmp_path):
    tables = Tables(path=str(tmp_path / "tables"), format=request.param)
    return table(own_session(spark, tables), tables, "events")


def frame(opened, *rows, columns="id string, value int"):
    return opened.spark.createDataFrame(list(rows), columns)


def rows(opened, *names):
    return sorted(tuple(row) for row in opened.read().select(*names or ("id", "value")).collect())


@pytest.mark.matrix
def test_a_repeated_batch_is_there_once(opened):
    assert not opened.exists()
    opened.append(frame(opened, ("a", 1)), Batch(QUERY, 0))
    opened.append(frame(opened, ("b", 2)), Batch(QUERY, 1))
    opened.append(frame(opened, ("b", 2)), Batch(QUERY, 1))
    assert opened.exists()
    assert rows(opened) == [("a", 1), ("b", 2)]


def test_batches_of_a_backfill_and_of_a_query_do_not_meet(opened):
    opened.append(frame(opened, ("a", 1)), Batch("backfill", 0))
    opened.append(frame(opened, ("b", 2)), Batch(QUERY, 0))
    opened.append(frame(opened, ("a", 1)), Batch("backfill", 0))
    assert rows(opened) == [("a", 1), ("b", 2)]


def test_a_merge_adds_new_keys_only(opened):
    opened.merge(frame(opened, ("a", 1), ("b", 2)), Batch(QUERY, 0), ["id"])
    opened.merge(frame(opened, ("b", 9), ("c", 3)), Batch(QUERY, 1), ["id"])
    opened.merge(frame(opened, ("b", 9), ("c", 3)), Batch(QUERY, 1), ["id"])
    assert rows(opened) == [("a", 1), ("b", 2), ("c", 3)]


def test_an_empty_batch_changes_nothing(opened):
    opened.append(frame(opened), Batch(QUERY, 0))
    opened.append(frame(opened, ("a", 1)), Batch(QUERY, 1))
    opened.append(frame(opened), Batch(QUERY, 2))
    assert rows(opened) == [("a", 1)]


@pytest.mark.parametrize("way", ["append", "merge"])
def test_a_column_is_added(opened, way):
    def write(added, batch):
        opened.append(added, batch) if way == "append" else opened.merge(added, batch, ["id"])

    write(frame(opened, ("a", 1)), Batch(QUERY, 0))
    write(frame(opened, ("b", 2, "x"), columns="id string, value int, firmware string"), Batch(QUERY, 1))
    assert rows(opened, "id", "firmware") == [("a", None), ("b", "x")]


def test_a_table_belongs_to_one_query(opened):
    opened.claim(QUERY)
    opened.claim(QUERY)
    with pytest.raises(ConfigError, match=f"table events belongs to query {QUERY}"):
        opened.claim(OTHER)


def test_maintenance_compacts_files_and_keeps_the_rows(opened):
    for number in range(6):
        opened.append(frame(opened, (f"row-{number}", number)), Batch(QUERY, number))
    before = rows(opened)
    if type(opened).__name__ == "ParquetTable":
        with pytest.raises(ConfigError, match="use delta or iceberg"):
            opened.maintain(168.0)
    else:
        maintenance = opened.maintain(168.0)
        assert maintenance.files_after == 1 < maintenance.files_before
    assert rows(opened) == before
    opened.append(frame(opened, ("row-5", 5)), Batch(QUERY, 5))
    assert rows(opened) == before


def test_parquet_files_of_an_interrupted_batch_are_invisible(spark, tmp_path):
    opened = table(spark, Tables(path=str(tmp_path), format="parquet"), "events")
    opened.append(frame(opened, ("a", 1)), Batch(QUERY, 0))
    frame(opened, ("lost", 2)).write.parquet(str(tmp_path / "events" / "_staging" / f"{QUERY}-1"))
    assert rows(opened) == [("a", 1)]
    opened.append(frame(opened, ("b", 2)), Batch(QUERY, 1))
    assert rows(opened) == [("a", 1), ("b", 2)]
