# help --pages: manual pages and completions, made of what --help says.
expect 0 help --pages share; is_quiet
for file in bash-completion/completions/ckpt zsh/site-functions/_ckpt fish/vendor_completions.d/ckpt.fish; do
  [ -s "share/$file" ] || fail "no $file"
done
cp .out none; expect 0 completion bash; cmp .out share/bash-completion/completions/ckpt || fail "two bash scripts"
expect 0 help
for command in $(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' .out); do
  page=share/man/man1/ckpt-$command.1
  [ -s "$page" ] || fail "no $page"
  grep -q "ckpt..$command.. (1)\|BR ckpt..$command (1)" share/man/man1/ckpt.1 || fail "ckpt.1 does not name $command"
  for heading in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES 'EXIT STATUS'; do
    grep -q "^.SH $heading$" "$page" || fail "$page has no $heading"
  done
done
grep -q -- '\\-\\-keep\\-last' share/man/man1/ckpt-prune.1 || fail "prune's page lacks --keep-last"
for page in share/man/man1/*.1; do
  ! LC_ALL=C grep -q '[^ -~]' "$page" || fail "$page is not ASCII"
  if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww -z "$page" 2>.err; is_quiet
  fi
  if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    man --warnings -l "$page" 2>.err >/dev/null; is_quiet
  fi
  ! command -v mandoc >/dev/null || mandoc -Tlint -W error "$page" >.err || fail "mandoc refuses $page"
done
touch file; expect 2 help --pages file; complains 'cannot write file/'
