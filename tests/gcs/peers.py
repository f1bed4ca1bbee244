#!/usr/bin/env python3
"""Google's own client reads what ckpt put into a bucket, and ckpt reads what it put. Under tests/gcs/run.sh:

  peers.py CKPT     the tool; needs google-cloud-storage, safetensors, numpy, xxhash

The client compares each body with the CRC-32C that the server keeps of it.
"""

import os
import sys

from google.cloud import storage

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cloud"))
from peers import exchange  # noqa: E402


def main():
    endpoint = os.environ["CKPT_TEST_GCS"]
    bucket = storage.Client(project="p", client_options={"api_endpoint": endpoint}).bucket("ckpt-test")
    os.environ["STORAGE_EMULATOR_HOST"] = endpoint  # for ckpt; with it the client would go without a token
    exchange(
        sys.argv[1],
        "gs://ckpt-test",
        "Google",
        lambda prefix: [blob.name for blob in bucket.list_blobs(prefix=prefix)],
        lambda name, path: bucket.blob(name).download_to_filename(path, checksum="crc32c"),
        # A resumable upload.
        lambda path, name: bucket.blob(name, chunk_size=1 << 20).upload_from_filename(path, checksum="crc32c"),
    )


main()
