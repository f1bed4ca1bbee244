"""Builds the checkout that it lies in: conan create packaging/conan. `-o "&:shared=True"` for shared libraries.

A profile's [platform_requires] may name what the system has instead, as system.profile does.
"""
import os
import re

from conan import ConanFile
from conan.tools.build import stdcpp_library
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.gnu import PkgConfigDeps

PARTS = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "cmake/*", "include/*", "schemas/*", "src/*",
         "pkgconfig/*", "interop/CMakeLists.txt", "interop/ckpt_files.map", "interop/maps/*", "interop/src/*",
         "contrib/recis/CMakeLists.txt", "contrib/recis/files/*", "bindings/cpp/*", "examples/c/*", "docs/*.md",
         "bindings/*.md", "bench/*.md", "bench/*.svg", "contrib/*.md")


class Ckpt(ConanFile):
    name = "ckpt"
    description = "Training checkpoints, saved by many ranks and loaded on any number"
    license = "Apache-2.0"
    topics = "checkpoint", "machine-learning", "safetensors"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "library"
    options = {"shared": [True, False], "files": [True, False], "tool": [True, False]}
    default_options = {"shared": False, "files": True, "tool": True}

    def set_version(self):
        said = load(self, os.path.join(self.recipe_folder, "../../CMakeLists.txt"))
        self.version = re.search(r"project\(ckpt VERSION ([0-9.]+)", said)[1]

    def export_sources(self):
        for part in PARTS:
            copy(self, part, os.path.join(self.recipe_folder, "../.."), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("lz4/[>=1.8 <2]")
        for headers in ("xxhash/[>=0.8 <1]", "flatbuffers/[>=2.0]", "nlohmann_json/[>=3 <4]", "libcurl/[>=7.62 <9]"):
            self.requires(headers, libs=False, visible=False)
        if self.options.files:
            self.requires("zlib/[>=1.2.11 <2]")
        if self.options.tool:
            self.requires("cli11/[>=2.1 <3]", visible=False)

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")
        self.tool_requires("flatbuffers/[>=2.0]")  # flatc

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.blocks.remove("arch_flags")  # -m64: what ckpt is for has no other, and ccache would compile all again
        toolchain.cache_variables["CKPT_INTEROP"] = bool(self.options.files)
        toolchain.cache_variables["CKPT_BUILD_TOOL"] = bool(self.options.tool)
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="ckpt_installed")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for ours in ("lib/cmake", "lib/pkgconfig"):  # Conan's are written by its consumers' generators
            rmdir(self, os.path.join(self.package_folder, ours))

    def package_info(self):
        there = {package.ref.name for package in self.dependencies.host.values()}  # not what the platform has

        def component(name, target, package, library, ours, needs):
            part = self.cpp_info.components[name]
            part.libs = [library]
            part.set_property("cmake_target_name", target)
            part.set_property("pkg_config_name", package)
            part.set_property("pkg_config_custom_content", "api=${prefix}/share/ckpt/api.json")
            part.requires = ours + [f"{need}::{need}" for need in needs if need in there]
            part.system_libs = ["pthread", "m", "dl"]
            if not self.options.shared:
                part.system_libs += [stdcpp_library(self), *(needs[need] for need in needs if need not in there)]

        self.cpp_info.set_property("cmake_target_name", "ckpt::all")
        self.cpp_info.set_property("pkg_config_name", "ckpt-all")
        component("core", "ckpt::ckpt", "ckpt", "ckpt", [], {"lz4": "lz4"})
        if self.options.files:
            component("files", "ckpt::files", "ckpt-files", "ckpt_files", ["core"], {"zlib": "z"})
