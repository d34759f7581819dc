"""Downloads of Apache Kafka's published test jars (once, from Maven Central), and the compiled classes of java/."""

import fcntl
import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

from compat_tests.harness.install import install
from compat_tests.harness.paths import CACHE
from compat_tests.harness.reference import KAFKA_VERSION

HOME = CACHE / f"kafka-tests-{KAFKA_VERSION}"
LIBRARIES = HOME / "lib"
SOURCES = Path(__file__).with_name("java")
KAFKA = "org.apache.kafka"
PLAIN = (
    *("kafka_2.13", "kafka-tools", "kafka-streams", "kafka-streams-scala_2.13", "connect-runtime", "connect-mirror"),
    "connect-file",
    *("kafka-test-common-runtime", "kafka-test-common-internal-api", "kafka-test-common-util"),
)
WITH_TESTS = (
    *("kafka-clients-integration-tests", "kafka-clients", "kafka-tools", "kafka-server", "kafka-server-common"),
    *("kafka-streams", "kafka-streams-integration-tests", "connect-runtime", "connect-mirror", "kafka_2.13"),
    *("kafka-storage", "kafka-storage-api", "kafka-group-coordinator", "kafka-metadata", "kafka-raft"),
)
"""Artifacts whose jar with the classifier `test` is downloaded."""
OTHERS = (
    ("org.junit.jupiter", "junit-jupiter", "5.13.1"),
    ("org.junit.platform", "junit-platform-launcher", "1.13.1"),
    ("org.junit.platform", "junit-platform-suite", "1.13.1"),
    ("org.mockito", "mockito-core", "5.20.0"),
    ("org.mockito", "mockito-junit-jupiter", "5.20.0"),
    ("org.hamcrest", "hamcrest", "3.0"),
    ("org.bouncycastle", "bcpkix-jdk18on", "1.80"),
    ("org.apache.logging.log4j", "log4j-core", "2.25.1"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"),
)
SASL = (
    ("org.apache.directory.api", "api-all", "1.0.2"),
    ("org.apache.directory.server", "apacheds-core-api", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-interceptor-kerberos", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-jdbm-partition", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-ldif-partition", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-mavibot-partition", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-protocol-kerberos", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-protocol-ldap", "2.0.0-M24"),
    ("org.apache.directory.server", "apacheds-protocol-shared", "2.0.0-M24"),
    ("no.nav.security", "mock-oauth2-server", "2.2.1"),
)
"""Servers of Kafka's SASL tests; without them the JVM cannot load the classes that use them."""
UNWANTED = (
    ("org.bouncycastle", "bcprov-jdk15on"),
    ("xml-apis", "xml-apis"),
    ("log4j", "log4j"),
    ("org.slf4j", "slf4j-log4j12"),
    ("ch.qos.logback", "logback-classic"),
)

NOT_FOR_CONNECT = (
    *(
        "api-",
        "apacheds-",
        "ehcache",
        "freemarker",
        "kotlin",
        "mavibot",
        "mina-",
        "mock-",
        "mockwebserver",
        "netty-",
        "nimbus-",
    ),
    *("oauth2-", "okhttp", "okio", "org.apache.servicemix", "commons-collections"),
    *("bcpkix", "bcutil", "kafka-streams", "rocksdbjni", "scala-reflect"),
)
"""Prefixes of jars that Connect's tests do not load: each Connect worker scans all classes of the class path."""


def pom() -> str:
    artifacts = [(KAFKA, name, KAFKA_VERSION, "") for name in PLAIN]
    artifacts += [(KAFKA, name, KAFKA_VERSION, "<classifier>test</classifier>") for name in WITH_TESTS]
    artifacts += [(*each, "") for each in OTHERS]
    unwanted = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in UNWANTED
    )
    artifacts += [(*each, f"<exclusions>{unwanted}</exclusions>") for each in SASL]
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{more}"
        "</dependency>"
        for group, name, version, more in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kwire.compat</groupId><artifactId>kafka-tests</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def fetch() -> None:
    """Download the jars if the existing ones are not those of this list."""
    install("kafka")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = HOME / "pom.xml"
        if path.exists() and path.read_text() == pom() and (HOME / "complete").exists():
            return
        (HOME / "complete").unlink(missing_ok=True)
        shutil.rmtree(LIBRARIES, ignore_errors=True)
        path.write_text(pom())
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={LIBRARIES}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(path), *goal], check=True)
        (HOME / "complete").touch()


def class_path(side: str, left_out: tuple[str, ...] = ()) -> str:
    """Return the class path for one side: on kwire, classes of java/cluster precede Kafka's classes of the same names.

    It omits jars whose names begin with one of `left_out`.
    """
    folders = [_compiled("launcher", ()), _connect_plugins()]
    if side == "kwire":
        folders.insert(0, _compiled("cluster", folders))
    jars = [each for each in sorted(LIBRARIES.glob("*.jar")) if not each.name.startswith(left_out)]
    return ":".join(str(each) for each in (*folders, *jars))


def _compiled(folder: str, needed: tuple[Path, ...] | list[Path]) -> Path:
    sources = sorted((SOURCES / folder).rglob("*.java"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in [*sources, *_all_sources()])).hexdigest()[:16]
    target = HOME / "classes" / f"{folder}-{digest}"
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            path = ":".join([*(str(each) for each in needed), f"{LIBRARIES}/*"])
            command = ["javac", "-nowarn", "-proc:none", "-cp", path, "-d", str(target), *map(str, sources)]
            subprocess.run(command, check=True)
            if (SOURCES / folder / "META-INF").exists():
                shutil.copytree(SOURCES / folder / "META-INF", target / "META-INF", dirs_exist_ok=True)
            (target / "complete").touch()
    return target


def _connect_plugins() -> Path:
    """Unpack the sources of plug-ins that Connect's tests compile, because these must be files."""
    target = HOME / "resources"
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with zipfile.ZipFile(LIBRARIES / f"connect-runtime-{KAFKA_VERSION}-test.jar") as jar:
                jar.extractall(target, [each for each in jar.namelist() if each.startswith("test-plugins/")])
    return target


def _all_sources() -> list[Path]:
    return sorted((SOURCES / "launcher").rglob("*.java"))
