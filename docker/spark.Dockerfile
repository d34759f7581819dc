# Spark with its Kafka connector and tables, kwire as a library, and the pipeline of spark_jobs/.
# Built from the project's root: docker build -f docker/spark.Dockerfile -t kwire-spark .
FROM python:3.11-slim-bookworm
# As in the broker's Dockerfile.
ARG PIP_CERT
ARG PIP_DEFAULT_TIMEOUT
ARG PIP_EXTRA_INDEX_URL
ARG PIP_INDEX_URL
ARG PIP_TRUSTED_HOST
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY docker/certificates/ /usr/local/share/ca-certificates/
RUN update-ca-certificates
COPY pyproject.toml README.md LICENSE /source/
COPY spark_jobs/versions.py /source/spark_jobs/
# The dependencies of kwire and of its extra `spark`, with the pyspark that the connector fits.
RUN python3 -c 'import tomllib; found = tomllib.load(open("/source/pyproject.toml", "rb"))["project"]; \
print(*found["dependencies"], *found["optional-dependencies"]["spark"], sep="\n")' > /source/spark.txt \
    && (cd /source && python3 -m spark_jobs.versions requirements | tr " " "\n") >> /source/spark.txt \
    && python3 -m venv /opt/spark \
    && /opt/spark/bin/python -m pip install --no-cache-dir --disable-pip-version-check -r /source/spark.txt
RUN useradd --uid 1000 --create-home spark && install --directory --owner=spark --group=spark /var/lib/spark
ENV PATH=/opt/spark/bin:$PATH PYTHONPATH=/srv PYTHONUNBUFFERED=1
USER spark
WORKDIR /var/lib/spark
COPY spark_jobs/versions.py /srv/spark_jobs/
# Download the packages of all formats from Maven Central during the build; a start downloads nothing.
RUN python -c 'from pyspark.sql import SparkSession; from spark_jobs.versions import all_packages; \
SparkSession.builder.master("local[1]").config("spark.jars.packages", ",".join(all_packages())).getOrCreate().stop()'
COPY kwire/ /srv/kwire/
COPY spark_jobs/ /srv/spark_jobs/
COPY docker/spark_health.py /opt/spark/
VOLUME /var/lib/spark
ENTRYPOINT ["python", "-m"]
