#!/bin/sh
# Makes the bucket S3_BUCKET at S3_ENDPOINT, unless it exists. Needs curl 7.75 or later, and the
# user and password of the store in /run/secrets.
set -eu

secrets=${SECRETS:-/run/secrets}
status=$(curl --silent --show-error --retry 30 --retry-connrefused --retry-delay 1 \
    --output /dev/null --write-out '%{http_code}' \
    --aws-sigv4 aws:amz:us-east-1:s3 --user "$(cat "$secrets/s3-user"):$(cat "$secrets/s3-password")" \
    --request PUT "$S3_ENDPOINT/$S3_BUCKET")
case "$status" in
    200) echo "made the bucket $S3_BUCKET" ;;
    409) echo "the bucket $S3_BUCKET exists" ;;
    *)
        echo "the store answered $status" >&2
        exit 1
        ;;
esac
