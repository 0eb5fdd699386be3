# SPDX-License-Identifier: Apache-2.0
"""Puts the message definitions of proto/ into the package, as protobuf's description of them."""
import os
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "proto")


def describe(out):
    arguments = ["-I" + PROTO, "--include_imports", "--descriptor_set_out=" + out,
                 os.path.join(PROTO, "posed.proto"), os.path.join(PROTO, "requests.proto")]
    if shutil.which("protoc"):
        subprocess.run(["protoc", *arguments], check=True)
        return
    from grpc_tools import protoc  # pylint: disable=import-outside-toplevel
    if protoc.main(["protoc", *arguments]) != 0:
        raise RuntimeError("protoc failed")


class BuildWithSchema(build_py):
    def run(self):
        super().run()
        if self.editable_mode if hasattr(self, "editable_mode") else False:
            describe(os.path.join(HERE, "posed", "schema.binpb"))
        else:
            os.makedirs(os.path.join(self.build_lib, "posed"), exist_ok=True)
            describe(os.path.join(self.build_lib, "posed", "schema.binpb"))


setup(cmdclass={"build_py": BuildWithSchema})
