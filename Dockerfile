# docker build -t anachron . && docker run --rm -v "$PWD:/data" anachron demo --out demo-run
FROM python:3.12-slim
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu
COPY pyproject.toml README.md LICENSE /anachron/
COPY src /anachron/src
RUN pip install --no-cache-dir "/anachron[report,edit,hub,sheets]" && rm -rf /anachron
# What a user without a name may write: models of the hub and what Anachron keeps between runs
ENV HF_HOME=/tmp/huggingface ANACHRON_CACHE=/tmp/anachron HOME=/tmp
WORKDIR /data
ENTRYPOINT ["anachron"]
CMD ["--help"]
