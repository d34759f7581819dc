"""Small files and renames in every file system that Hadoop knows: local, HDFS, object stores."""

import uuid
from typing import Any

from pyspark.sql import SparkSession


class Place:
    """Path of a file or directory, such as /data/x or s3a://bucket/x."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path: Any = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 PySpark has no public way
        self._system: Any = self._path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def __str__(self) -> str:
        return str(self._path.toString())

    def __truediv__(self, name: str) -> "Place":
        return Place(self._spark, f"{self}/{name}")

    def exists(self) -> bool:
        return bool(self._system.exists(self._path))

    def read_text(self) -> str | None:
        """Return the text of a file, None if it does not exist."""
        if not self.exists():
            return None
        stream = self._system.open(self._path)
        try:
            return str(self._spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))  # noqa: SLF001
        finally:
            stream.close()

    def create(self, text: str) -> None:
        """Create a file in one step. Raises FileExistsError."""
        parent, _, name = str(self).rpartition("/")
        draft = Place(self._spark, f"{parent}/_{name}.{uuid.uuid4().hex}")
        stream = draft._system.create(draft._path, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        if self.exists() or not draft.rename(self):
            draft.delete()
            raise FileExistsError(str(self))

    def make_directory(self) -> None:
        self._system.mkdirs(self._path)

    def rename(self, target: "Place") -> bool:
        """Rename this, in one step on file systems; return False if the target exists."""
        return bool(self._system.rename(self._path, target._path))  # noqa: SLF001 of this class

    def delete(self) -> None:
        """Delete a file or a directory with all that is in it."""
        self._system.delete(self._path, True)

    def names(self) -> list[str]:
        """Return the names in a directory, none if it does not exist."""
        if not self.exists():
            return []
        return sorted(each.getPath().getName() for each in self._system.listStatus(self._path))
