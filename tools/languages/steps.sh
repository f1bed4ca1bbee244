# The steps of tools/test-languages, which sources this. They use $prefix, $work, $programs, $bindings and $torch_venv.

# ---- what the steps need ----
python=$work/python/bin/python3
get_packages() {
  local wanted stamp=$work/python/made-with needed=(-r "$bindings/python/tests/requirements.txt")
  [[ -z $torch_venv ]] || needed+=(-r "$bindings/python/tests/requirements-torch.txt")
  wanted=$(cat "$bindings"/python/tests/requirements*.txt; echo "$torch_venv")
  if [[ ! -e $stamp || $(<"$stamp") != "$wanted" ]]; then
    rm -rf "$work/python"
    quietly build/log/languages-venv.txt python3 -m venv "$work/python"
    [[ -z $torch_venv ]] ||
      echo "$torch_venv"/lib/python3*/site-packages >"$(echo "$work"/python/lib/python3*/site-packages)/torch.pth"
    quietly build/log/languages-pip.txt "$work/python/bin/pip" install -q --no-cache-dir \
      "${needed[@]}" </dev/null
    echo "$wanted" >"$stamp"
  fi
}
# As a wheel, with libraries and tool in it. By LD_LIBRARY_PATH the module finds those of PREFIX, which are the same.
wheels=$work/wheels
make_python() {
  local pip=$work/python/bin/pip log=build/log/languages-python-build.txt
  get_packages
  rm -rf "$wheels"
  quietly "$log" "$pip" wheel -q --no-cache-dir --no-deps -w "$wheels" -C cmake.define.CKPT_BUNDLE=ON \
    "$bindings/python" </dev/null
  quietly "$log" "$pip" install -q --no-deps --force-reinstall "$wheels"/*.whl </dev/null
}

# With the library's own warnings as errors; $1: more CMake settings.
build_c_runner() {
  quietly build/log/languages-c-configure.txt cmake -G Ninja -S tests/conformance -B "$programs/c" \
    -DCMAKE_BUILD_TYPE=Release "$@"
  quietly build/log/languages-c-build.txt cmake --build "$programs/c" -j "$jobs"
}

libasan=$("${CC:-cc}" -print-file-name=libasan.so)
# The same with sanitizers, and a library that has them. Go's linker adds the runtime of the sanitizers; Rust programs
# preload it.
build_sanitized_runners() {
  local flags="-fsanitize=address,undefined -fno-sanitize-recover=all"
  build_c_runner -DCMAKE_C_FLAGS="$flags"
  [[ $have_rust == no ]] ||
    quietly build/log/languages-rust-build.txt rust cargo build --quiet --locked --release -p ckpt-conformance
  [[ $have_go == no ]] ||
    quietly build/log/languages-go-build.txt go_in go build -asan -o "$programs/go-runner" ./cmd/ckpt-conformance
}

# The module and the engine have sanitizers, Python itself does not. So it preloads them, and the C++ runtime that they
# inspect; memory that Python never frees is not reported as a leak.
sanitized_python=$work/python-sanitized
sanitized_preload="$libasan $("${CXX:-c++}" -print-file-name=libstdc++.so.6)"
sanitized_options=detect_leaks=0:allocator_may_return_null=1
build_sanitized_python() {
  [[ -x $python ]] || make_python
  rm -rf "$sanitized_python"
  CXXFLAGS="-O1 -g -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all" \
    quietly build/log/languages-python-build.txt \
    "$work/python/bin/pip" install -q --no-cache-dir --no-deps --target "$sanitized_python" "$bindings/python" \
    </dev/null
  cp "$work"/python/lib/python3*/site-packages/ckpt/_core.pyi "$sanitized_python/ckpt" # its own build cannot load it
}
test_python_sanitized() {
  counted pytest "Python tests sanitized" env PYTHONPATH="$sanitized_python:$bindings/python/tests" \
    LD_PRELOAD="$sanitized_preload" ASAN_OPTIONS=$sanitized_options "$python" "${python_tests[@]}" \
    -m "not torch and not jax and not s3 and not cuda"
}

# Rust's own tests, except `big`, which takes too long with sanitizers. `forgotten` leaks on purpose.
test_rust_sanitized() {
  local file name host names=() runner
  host=$(rustc -vV | sed -n 's/^host: //p')
  host=${host^^}
  for file in "$bindings"/rust/ckpt/tests/*.rs; do
    name=$(basename "$file" .rs)
    [[ $name == big || $name == forgotten ]] || names+=(--test "$name")
  done
  runner="CARGO_TARGET_${host//-/_}_RUNNER=env LD_PRELOAD=$libasan ASAN_OPTIONS=allocator_may_return_null=1"
  counted cargo "Rust tests sanitized" rust env "$runner" \
    cargo test --locked -p ckpt --all-features --lib "${names[@]}"
  counted cargo "Rust tests sanitized, leaking on purpose" rust env "$runner:detect_leaks=0" \
    cargo test --locked -p ckpt --all-features --test forgotten
}

# ---- the bindings' own tests ----
# Those of Python and of contrib share two processes, what takes long to make, and the fixtures of conftest.py.
python_tests=(-m pytest -q -rfEsxX -p no:cacheprovider -c "$bindings/python/pyproject.toml" --noconftest -p conftest
  "$bindings/python/tests" contrib/recis/tests/python)
rust() { (cd "$bindings/rust" && "$@"); }
rust_examples_format() {
  rustfmt --edition 2021 --config-path "$bindings/rust/rustfmt.toml" --check examples/languages/rank.rs
}
test_rust() {
  claim "Rust: cargo fmt" rust cargo fmt --check
  claim "Rust: rustfmt of the example" rust_examples_format
  claim "Rust: cargo clippy" rust cargo clippy --quiet --locked --all-targets --all-features -- -D warnings
  counted cargo "Rust tests" rust cargo test --locked --all-features
  claim "Rust: the runner" rust cargo build --quiet --locked --release -p ckpt-conformance
  [[ $long == yes ]] || return 0
  counted cargo "Rust tests with the static library" \
    rust env CKPT_STATIC=1 CARGO_TARGET_DIR="$work/rust-static" cargo test --locked -p ckpt-sys
  claim "Rust: the documents" rust env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps --all-features
}

go_in() { (cd "$bindings/go" && "$@"); }
gofmt_is_quiet() {
  local wrong
  # In a condition set -e does not end a function.
  wrong=$(gofmt -l "$bindings/go" examples/languages/go examples/readers/go) || return 1
  echo "$wrong"
  [[ -z $wrong ]]
}
go_reader() { (cd "$repo/examples/readers/go" && go "$@"); }
test_go() {
  claim "Go: gofmt" gofmt_is_quiet
  claim "Go: vet" go_in go vet ./...
  claim "Go: lists.go is what the headers say" python3 "$bindings/go/gen/generate.py" --check
  counted go "Go tests, under the race detector and cgocheck2" \
    go_in env GOEXPERIMENT=cgocheck2 go test -count=1 -race -v ./...
  claim "Go: vet of the third reader of the format" go_reader vet .
  counted go "Go: the third reader of the format" go_reader test -count=1 -v .
  claim "Go: the runner" go_in go build -o "$programs/go-runner" ./cmd/ckpt-conformance
  [[ $long == no ]] ||
    claim "Go: links the static library" go_in go build -tags static -o "$programs/go-static" ./cmd/ckpt-conformance
}

# NAME MARKS
some_python_tests() {
  counted pytest "$1" env PYTHONPATH="$bindings/python/tests" tests/s3/run.sh "$s3proxy" "$python" \
    "${python_tests[@]}" -m "not cuda and $2"
}
python_without_torch() { some_python_tests "Python tests" "not torch"; }
python_with_torch() { some_python_tests "Python tests with torch" "torch"; }
test_python() {
  local fake=$repo/build/release/tests/fake_cuda/libcudart.so.13
  fetch_s3proxy
  if [[ -n $torch_venv ]]; then together python_without_torch python_with_torch; else python_without_torch; fi
  # A process of its own: it has a libcudart, which the others must not have.
  counted pytest "Python tests on a fake device" env CKPT_CUDART="$fake" CKPT_TEST_CUDART="$fake" \
    "$python" -m pytest -q -rfEsxX -p no:cacheprovider "$bindings/python/tests/test_device.py"
}
make_julia_checks() {
  local requirements=tests/julia/requirements.txt stamp=$work/julia/made-with
  [[ ! -e $stamp || $(<"$stamp") != "$(<"$requirements")" ]] || return 0
  rm -rf "$work/julia"
  quietly build/log/languages-julia-venv.txt python3 -m venv "$work/julia"
  quietly build/log/languages-julia-pip.txt "$work/julia/bin/pip" install -q -r "$requirements" </dev/null
  cp "$requirements" "$stamp"
}
test_julia() {
  make_julia_checks
  counted claims languages-julia "$work/julia/bin/python3" tests/julia/run.py --library "$prefix/lib/libckpt.so"
}

# ---- all of them together ----
# Lists the runners for run.py and the others. With sanitizers, those of Rust and Python preload the runtime.
write_runners() {
  local for_rust='' for_python=''
  if [[ $sanitized == yes ]]; then
    for_rust="\"env\", \"LD_PRELOAD=$libasan\", "
    for_python="\"env\", \"PYTHONPATH=$sanitized_python\", \"LD_PRELOAD=$sanitized_preload\", "
    for_python+="\"ASAN_OPTIONS=$sanitized_options\", "
  fi
  {
    echo "{\"c\": [\"$programs/c/conformance_c\"],"
    [[ $have_rust == no ]] || echo " \"rust\": [$for_rust\"$CARGO_TARGET_DIR/release/ckpt-conformance\"],"
    [[ $have_go == no ]] || echo " \"go\": [\"$programs/go-runner\"],"
    echo " \"python\": [$for_python\"$python\", \"-B\", \"$bindings/python/conformance\"]}"
  } >"$programs/runners.json"
}
sanitized_conformance() {
  counted claims languages-conformance-sanitized python3 tests/conformance/run.py "$programs/runners.json" "$work/suite"
}
conformance() {
  local suite=(python3 tests/conformance/run.py) rest=("$programs/runners.json" "$work/suite")
  if [[ $long == no ]]; then
    counted claims languages-conformance "${suite[@]}" --short "${rest[@]}"
  else
    counted claims languages-conformance-self-test "${suite[@]}" --self-test "${rest[@]}"
    counted claims languages-conformance "${suite[@]}" "${rest[@]}"
  fi
}
functions_and_handles() {
  claim "the trace sees what is called and what is left" \
    python3 tests/languages/tracer.py self-test "$prefix/include" "$prefix" "$work/trace"
  counted claims languages-functions python3 tests/languages/functions_test.py "$programs/runners.json" \
    "$prefix/include" tests/conformance/scenarios "$work/trace"
}
readmes() {
  local languages=(c cpp jax operator)
  [[ -z $torch_venv ]] || languages+=(front python) # training loops of torch
  [[ $have_rust == no ]] || languages+=(rust)
  [[ $have_go == no ]] || languages+=(go reader)
  counted claims languages-readmes python3 tests/languages/readme_test.py "$prefix" "$python" "$work/readme" \
    "${languages[@]}"
  [[ -z $torch_venv ]] ||
    counted claims languages-fragments "$python" -B tests/languages/fragments_test.py "$prefix" "$work/fragments"
}
# That wheel where there is nothing else of ckpt.
test_wheel() {
  local alone=(env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH bash)
  claim "the wheel by itself" "${alone[@]}" tests/package/wheel.sh "$python" "$wheels"
  [[ -z $torch_venv ]] || claim "the wheel by itself: the README's training" "${alone[@]}" tests/package/readme.sh \
    "$python" "$wheels" "$repo/README.md" "$torch_venv"
}
four_languages() {
  quietly build/log/languages-four-build.txt examples/languages/build.sh "$prefix" "$programs"
  counted claims languages-four python3 tests/languages/four_test.py "$programs" "$prefix" "$prefix/include" "$python" \
    "$work/four"
}
