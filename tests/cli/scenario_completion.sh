# completion: bash completes commands, options, their values and files by the printed script.
expect 2 completion tcsh; complains 'expected bash, zsh or fish'
for shell in bash zsh fish; do
  expect 0 completion $shell; is_quiet
  cp .out "completion.$shell"
  for command in ls prune completion; do grep -q "$command" completion.$shell || fail "$shell lacks $command"; done
  ! command -v $shell >/dev/null || $shell -n completion.$shell || fail "$shell cannot read its script"
done
touch epoch9.pt 'two words.pt'

# completed WORDS...: what bash offers for the last word, in one line.
completed() {
  bash --norc -c '
    . ./completion.bash
    COMP_WORDS=(ckpt "$@") COMP_CWORD=$#
    $(complete -p ckpt | sed "s/.*-F \([^ ]*\) .*/\1/")
    printf "%s," "${COMPREPLY[@]}"' - "$@"
}
offers() { [ "$(completed "${@:2}")" = "$1" ] || fail "after 'ckpt ${*:2}' bash offers $(completed "${@:2}")"; }
offers 'repair,' repa
offers 'runs,report,repair,rm,' r
offers '--keep-last,--keep-every,' prune store --keep
offers '--run,' ls --ru
offers 'keep_last=,keep_every=,keep_best=,keep_interval=,' prune store -o keep
offers 'safetensors,' export store x --format s
offers 'bash,' completion b
offers 'options,' help opt
offers 'epoch9.pt,' import ep
offers 'two words.pt,' import two
offers '--version,' --ver
