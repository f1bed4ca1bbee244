# help, --version, options and mistakes on the command line.
expect 0 --version; says '^ckpt [0-9]+\.[0-9]+\.[0-9]+ \(format revision [0-9]+\)$'
for arguments in --help help; do
  expect 0 $arguments; is_quiet
  for command in ls runs info verify diff cat import export repair prune rm help; do says "^  $command +[a-z]"; done
done
for command in ls runs info verify diff cat import export repair prune rm; do
  expect 0 help $command; says 'Examples:'; says 'Exit codes: 0'; says "ckpt $command "
  expect 0 $command --help; says 'Examples:'
done
expect 2 help nonsense; complains "^ckpt: no command is called 'nonsense'"
expect 0 help options; says '^OPTION +DEFAULT +VALUES'; says '^keep_last '; says '^compression .*none\|lz4'
expect 0 help options --json; json_is 'any(o["key"] == "threads" for o in d)' True
expect 2; complains '^ckpt: '
expect 2 nonsense; complains '^ckpt: '
expect 2 ls . --nonsense; complains 'see: ckpt help ls'
expect 2 ls . -o nonsense=1; complains "no option is called 'nonsense'"
expect 2 ls . -o threads; complains 'key=value'
expect 2 ls . -o threads=many; complains 'whole number'
expect 2 ls . -o threads=-5; complains '^ckpt: '
expect 2 ls . -o direct_io=maybe; complains '^ckpt: '
expect 0 ls . -o direct_io=off -o threads=2
