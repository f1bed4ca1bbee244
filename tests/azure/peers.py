#!/usr/bin/env python3
"""Microsoft's own client reads what ckpt put into a container, and ckpt reads what it put. Under tests/azure/run.sh:

  peers.py CKPT     the tool; needs azure-storage-blob, safetensors, numpy, xxhash

Service and client compare the MD5 of each block and of each range.
"""

import os
import sys

from azure.storage.blob import ContainerClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cloud"))
from peers import exchange  # noqa: E402


def main():
    piece = 1 << 20
    container = ContainerClient.from_connection_string(
        os.environ["AZURE_STORAGE_CONNECTION_STRING"],
        "ckpt-test",
        max_single_put_size=piece,
        max_block_size=piece,
        max_single_get_size=piece,
        max_chunk_get_size=piece,
    )

    def fetch(name, path):
        with open(path, "wb") as file:
            container.download_blob(name, validate_content="md5").readinto(file)

    def put(path, name):
        with open(path, "rb") as file:
            container.upload_blob(name, file, validate_content="md5")

    def names(prefix):
        return list(container.list_blob_names(name_starts_with=prefix))

    exchange(sys.argv[1], "az://ckpt-test", "Microsoft", names, fetch, put)


main()
