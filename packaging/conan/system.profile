# What Debian 12 has of what the recipe needs: for machines without Conan Center.
include(default)

[settings]
build_type=Release

[platform_requires]
lz4/1.9.4
xxhash/0.8.1
flatbuffers/2.0.8
nlohmann_json/3.11.2
libcurl/7.88.1
zlib/1.2.13
cli11/2.1.2

[platform_tool_requires]
cmake/3.25.1
flatbuffers/2.0.8
