#!/bin/sh
# The entry point of the image. Spark's Kubernetes scheduler starts it with `driver ...` or `executor`, as it does with
# the one of Spark's own images; all else are the arguments of cdc.
set -eu
case ${1-} in
  driver | executor) role=$1 && shift ;;
  *) exec cdc "$@" ;;
esac
found=$(python -c 'import os, pyspark
from cdc.job.spark.java import choose_java
print(os.path.dirname(pyspark.__file__), choose_java(os.environ).home)')
export SPARK_HOME="${found%% *}" JAVA_HOME="${found##* }"
export PYSPARK_PYTHON=/opt/cdc/bin/python PYSPARK_DRIVER_PYTHON=/opt/cdc/bin/python

if [ "$role" = executor ]; then
  while read -r option; do
    set -- "$@" "$option"
  done <<EOF
$(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4n | cut -d= -f2-)
EOF
  exec "$JAVA_HOME/bin/java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-/opt/spark/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
fi

# Java is the parent of cdc here: SIGTERM is for cdc, which finishes the running batch.
drain() {
  for process in $(grep -lz '^/opt/cdc/cdc-run.py$' /proc/[0-9]*/cmdline | cut -d/ -f3); do
    kill -TERM "$process"
  done
}
trap drain TERM
"$SPARK_HOME/bin/spark-submit" --deploy-mode client --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@" &
code=0
wait $! || code=$?
while kill -0 $! 2> /dev/null; do # a signal ends the wait alone
  code=0
  wait $! || code=$?
done
exit "$code"
