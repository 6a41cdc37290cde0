# A small stand-in for the official postgres image, for where no image registry is reached. It takes
# the same variables and runs the same init scripts: POSTGRES_PASSWORD, POSTGRES_USER, POSTGRES_DB.
ARG BASE=debian:12-slim
FROM ${BASE}
# The user's number is the official image's, so that one compose file fits both.
RUN groupadd --system --gid 999 postgres \
    && useradd --system --gid 999 --uid 999 --home-dir /var/lib/postgresql postgres \
    && mkdir -p /etc/postgresql-common \
    && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
    && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Options::=--force-unsafe-io postgresql > /dev/null \
    && rm -rf /var/lib/apt/lists/* /usr/share/doc /usr/share/man \
    && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ \
    && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data \
    && install -d -o postgres -g postgres -m 2775 /var/run/postgresql \
    && mkdir -p /docker-entrypoint-initdb.d
COPY postgres-entrypoint.sh /usr/local/bin/postgres-entrypoint.sh
ENV PGDATA=/var/lib/postgresql/data
USER 999:999
EXPOSE 5432
STOPSIGNAL SIGINT
ENTRYPOINT ["bash", "/usr/local/bin/postgres-entrypoint.sh"]
CMD ["postgres"]
