#!/bin/bash
# What tools/release promises, in a repository of its own, where a stand-in for tools/package makes files of the names
# that the real one makes.
#
#   release_test.sh SCRATCH
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd) scratch=$1
fail() { echo "failed: $*" >&2; exit 1; }
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$repo"
mapfile -t places < <(python3 -c 'import runpy
for path in sorted({path for path, _ in runpy.run_path("tools/version")["PLACES"]}): print(path)')
cp --parents "${places[@]}" CHANGELOG.md .gitignore packaging/meson/meson.build \
  tools/{release,version,lib.sh,results.py,package} "$scratch"
cd "$scratch"
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
git init -q
commit() { git add -A && git commit -q --no-gpg-sign -m "test: $*"; }
commit begin
unset CKPT_RESULTS CKPT_STEPS # what fails here on purpose is no failure of whoever tests

# expect TEXT COMMAND…: the command fails and says TEXT.
expect() {
  local text=$1 said; shift
  ! said=$("$@" 2>&1) || fail "$* succeeded"
  [[ $said == *"$text"* ]] || fail "$*: $said"
}
now=$(tools/version)
expect "expected a heading \"## 7.8.9 (YYYY-MM-DD)\"" tools/release --dry-run 7.8.9
sed -i "0,/^## /s//## 7.8.9 (unreleased)\n\n## /" CHANGELOG.md
expect "the tree has changes" tools/release --dry-run 7.8.9
commit "a heading without a day"
expect "found: ## 7.8.9 (unreleased)" tools/release --dry-run 7.8.9
sed -i "s/^## 7.8.9 (unreleased)/## 7.8.9 (2026-12-01)\n\n## 0.0.1 (2026-12-01)/" CHANGELOG.md
commit "a day"
expect "0.0.1 is older than $now" tools/release --dry-run 0.0.1
expect "tools/release X.Y.Z" tools/release 7.8

# The dry run tells all and changes nothing.
head=$(git rev-parse HEAD)
said=$(tools/release --dry-run 7.8.9)
for text in "version: $now -> 7.8.9" "tools/package wheel" "tools/package ports" "libckpt-7.8.9-" NEXT.md; do
  [[ $said == *"$text"* ]] || fail "the dry run does not say $text: $said"
done
[[ $(git rev-parse HEAD) == "$head" && -z $(git status --porcelain) ]] || fail "the dry run changed the tree"
[[ ! -e build/release-7.8.9 ]] || fail "the dry run collected something"

# A package that is not there is named; then all are collected, the version stands everywhere, and nothing is tagged.
printf '#!/bin/bash\n' >tools/package
chmod +x tools/package
commit "packages that make nothing"
mkdir -p build/package/{dist,go,amalgamation}
touch build/package/go/go.mod build/package/amalgamation/{LICENSE,api.json,ckpt.h,ckpt_amalgamation.cpp}
expect "there is no build/package/dist/libckpt-7.8.9-*.whl, which tools/package wheel makes" tools/release 7.8.9
[[ $(git log -1 --format=%s) == "build: version 7.8.9" ]] || fail "the version is not committed"
tools/version check
touch build/package/dist/{libckpt-7.8.9-cp312-abi3-x.whl,libckpt-7.8.9.tar.gz,ckpt_7.8.9_amd64.deb} \
  build/package/dist/ckpt{,-sys}-7.8.9.crate
tools/release 7.8.9
cd build/release-7.8.9
sha256sum --check --quiet SHA256SUMS
[[ $(wc -l <SHA256SUMS) == 8 ]] || fail "$(cat SHA256SUMS)"
for file in ckpt-7.8.9/CMakeLists.txt ckpt-amalgamation-7.8.9/meson.build ckpt-go-7.8.9/go.mod; do
  tar -tf "${file%%/*}.tar.gz" "$file" || fail "no $file in its archive"
done
grep -q "git -C .* tag -s v7.8.9" NEXT.md || fail "NEXT.md: $(cat NEXT.md)"
[[ -z $(git tag) ]] || fail "it made a tag"
