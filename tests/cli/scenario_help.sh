# help, --version, options and mistakes on the command line.
expect 0 --version; says '^ckpt [0-9]+\.[0-9]+\.[0-9]+ \(format revision [0-9]+\)$'
commands='status ls runs du report info verify diff cat cp import export map repair prune clean rm keep label check'
commands+=' completion'
for arguments in --help help; do
  expect 0 $arguments; is_quiet
  for command in $commands help; do says "^  $command +[a-z]"; done
done
for command in $commands; do
  expect 0 help $command; says 'Examples:'; says 'Exit codes: 0'; says "ckpt $command "
  expect 0 $command --help; says 'Examples:'
done
expect 2 help nonsense; complains "^ckpt: no command is called 'nonsense' \(ckpt help lists them\)$"
expect 2 help prnue; complains "^ckpt: no command is called 'prnue' .*; did you mean 'prune'\?$"
expect 0 help options; says '^OPTION +DEFAULT +VALUES'; says '^keep_last '; says '^compression .*none\|lz4'
expect 0 help options --json; json_is 'any(o["key"] == "threads" for o in d["options"])' True
expect 2; complains '^ckpt: a command is needed$'; complains '^see: ckpt help$'
expect 2 nonsense; complains "^ckpt: unknown command 'nonsense'$"; complains '^see: ckpt help$'
expect 2 lst .; complains "^ckpt: unknown command 'lst'; did you mean 'ls'\?$"
expect 2 verfy . --quick; complains "unknown command 'verfy'; did you mean 'verify'\?$"
expect 2 comp bash; complains "unknown command 'comp'; did you mean 'completion'\?$"
expect 2 ls . --nonsense; complains "^ckpt: unknown option '--nonsense'$"; complains 'see: ckpt help ls'
expect 2 prune . --keep-lst=3; complains "^ckpt: unknown option '--keep-lst'; did you mean '--keep-last'\?$"
expect 2 ls . more; complains "^ckpt: unexpected argument 'more'$"
expect 2 --versoin; complains "^ckpt: unknown option '--versoin'; did you mean '--version'\?$"
expect 2 ls . -o nonsense=1; complains "^ckpt: no option is called 'nonsense' \(see ckpt help options\)$"
expect 2 ls . -o keep_lats=1; complains "^ckpt: no option is called 'keep_lats' .*; did you mean 'keep_last'\?$"
expect 2 ls . -o threads; complains 'key=value'
expect 2 ls . -o threads=many; complains 'whole number'
expect 2 ls . -o threads=-5; complains '^ckpt: '
expect 2 ls . -o direct_io=maybe; complains '^ckpt: '
mkdir .ckpt; expect 0 ls . -o direct_io=off -o threads=2
