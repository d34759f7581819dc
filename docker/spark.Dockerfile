# Spark with its Kafka connector and the jobs of spark_jobs/.
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
RUN python3 -c 'import tomllib; print(*tomllib.load(open("/source/pyproject.toml", "rb"))["project"]["optional-dependencies"]["spark"], sep="\n")' \
        > /source/spark.txt \
    && python3 -m venv /opt/spark \
    && /opt/spark/bin/python -m pip install --no-cache-dir --disable-pip-version-check -r /source/spark.txt
RUN useradd --uid 1000 --create-home spark && install --directory --owner=spark --group=spark /var/lib/spark
ENV PATH=/opt/spark/bin:$PATH PYTHONPATH=/srv PYTHONUNBUFFERED=1
USER spark
WORKDIR /var/lib/spark
COPY spark_jobs/*.py /srv/spark_jobs/
# Download the connector from Maven Central during the build.
RUN python -c 'from spark_jobs.session import new_session; new_session("warm").stop()'
VOLUME /var/lib/spark
ENTRYPOINT ["python", "-m"]
