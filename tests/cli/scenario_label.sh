# label: names that checkpoints are given after they were saved, and are found by.
make_safetensors a.safetensors "w F32 2 $(f32 1 2)"
for step in 1 2 3; do import a.safetensors store step-$step --step $step; done
first=step-1.1.1 second=step-2.2.1
expect 0 label store@step:1 prod; is_quiet; says "^prod is $first, kept$"; says_not 'it was'
expect 0 info store@name:prod --json; json_is 'd["id"]' "$first"
expect 0 label "store/$second" prod; says "^prod is $second, kept$"
says "^it was $first, which stays kept \(ckpt keep --release\)$"
expect 0 label store@name:prod best --no-keep --json
json_is '(d["id"], d["name"], d["run"], d["kept"], d["before"])' "('$second', 'best', 'main', True, None)"
expect 0 ls store; says "^$first .* kept$"; says "^$second .* kept, name:best, name:prod$"
expect 0 ls store --json; json_is '[c["names"] for c in d["checkpoints"]]' "[[], ['best', 'prod'], []]"
expect 2 info store@prod; complains "has no checkpoint \"prod\"; name:prod is $second"
expect 2 info store@name:prdo; complains 'has no checkpoint named "prdo"; near: "prod"$'
expect 0 rm store@name:best --kept
expect 2 info store@name:prod; complains "it was $second, which is not there any more"
expect 0 label store@step:3 prod --no-keep; says '^prod is step-3.3.1$'; is_quiet
expect 0 label store prod --remove; says '^prod is no name any more$'; says '^it was step-3.3.1$'
expect 2 label store prod --remove --json
expect 2 label store prod; complains 'name one checkpoint'
expect 2 label store@latest prod --remove; complains 'takes a STORE'
expect 2 label store@latest .prod; complains 'starts with a dot'
expect 0 ls store; says_not 'step-3.* kept'
