# check: what a directory's file system promises, alone and with peers that meet in it.
nothing_left() { [ -z "$(find "$1" -name '.ckpt-check*')" ] || fail "left behind: $(find "$1" -name '.ckpt-check*')"; }

mkdir plain
expect 0 check plain; is_quiet
says '^ckpt [0-9.]+, Linux .*, '; says '^plain: [a-z0-9.]+, .* on /'; says '(dead|silent) rank'
for promise in exclusive_create names_seen sync_file sync_folder space; do says "^$promise +ok"; done
says '^lock +(ok|without)'; says '^direct_write +(ok|without)'; says '^speed +ok +direct writes .*, reads .*B/s$'
says '^all that ckpt needs holds$'
expect 0 check plain --json; is_quiet
json_is 'd["directory"], d["holds"], d["peers"]' "('plain', True, None)"
json_is 'sorted(d)' "['directory', 'holds', 'locks', 'mount', 'peers', 'promises', 'system', 'version']"
json_is 'sorted(d["mount"])' "['options', 'point', 'source', 'type']"
json_is '{p["result"] for p in d["promises"]} <= {"ok", "without"}' True
nothing_left plain; [ -z "$(ls -A plain)" ] || fail "left: $(ls -A plain)"

expect 2 check missing; complains '^ckpt: no such directory: missing$'
expect 2 check plain --peers 0; expect 2 check plain --timeout 0; expect 2 check
touch file; expect 2 check file; complains '^ckpt: cannot make a folder in file: Not a directory$'
expect 2 check /proc; complains '^ckpt: cannot make a folder in /proc: No such file or directory$'
if [ "$(id -u)" -eq 0 ]; then # root may do anything, so another user tries
  mkdir -m 700 closed; mkdir -m 555 unwritable; chmod 755 "$SCRATCH"
  for folder in closed unwritable; do
    setpriv --reuid=65534 --regid=65534 --clear-groups "$CKPT" check $folder >.out 2>.err
    [ $? -eq 2 ] || fail "check of a folder that is closed did not exit with 2"
    complains "^ckpt: cannot make a folder in $folder: Permission denied$"
  done
fi

# A store is not disturbed, and does not see what is tried.
make_safetensors a.safetensors "w F32 2 $(f32 1 2)"
import a.safetensors store first; find store | sort >before
"$CKPT" check store --peers 2 --timeout 2 >.out 2>.err & check=$!
expect 0 ls store; expect 0 verify store; wait $check
[ $? -eq 1 ] || fail "a missing peer did not give 1"
find store | sort | diff before - || fail "the store was changed"

# Three peers in one folder: the first prints what all have seen.
peers() { # N FOLDER ARGUMENTS...: their outputs in peer.1, …
  local pids=() i count=$1; rm -f peer.*
  shift
  for ((i = 1; i <= count; i++)); do "$CKPT" check "$@" >peer.$i 2>&1 & pids+=($!); done
  for i in "${pids[@]}"; do wait "$i" || fail "a peer exited with $?: $(cat peer.*)"; done
  nothing_left "$1"
}
peers 3 plain --peers 3
[ "$(grep -l '^see what .* prints$' peer.* | wc -l)" -eq 2 ] || fail "not only the first reports: $(cat peer.*)"
cat peer.* >.out
says '^peers_exclusive +ok +([0-9]+) of \1 names'; says '^peers_names +ok +seen after'
says '^peers_locks +ok +seen, their end after'
says '^by listing +names .* ms, worst .* ms; removals'; says '^by lookup '; says '^by opened '
peers 2 plain --peers 2 --json
cat peer.* >.out
json_is 'len(d["peers"]["ids"]), d["holds"]' '(2, True)'
json_is 'd["peers"]["names_by_listing"]["missed"], d["peers"]["names_by_listing"]["median_ms"] >= 0' '(0, True)'

# What is behind a link in the place of the peers' folder stays.
mkdir victim linked; touch victim/hello.a; ln -s ../victim linked/.ckpt-check.peers
expect 1 check linked --peers 2 --timeout 4
says '^peers +BROKEN +linked/.ckpt-check.peers is a link, or others may write into it; remove it$'
[ "$(ls victim)" = hello.a ] || fail "behind the link is now: $(ls victim)"

# Who is missing is said in time; that is no success, and leaves nothing behind.
"$CKPT" check plain --peers 4 --timeout 4 >peer.1 & first=$!
expect 1 check plain --peers 4 --timeout 4; says '^peers +BROKEN +2 of 4 came within 4 s: [^ ]+, [^ ]+$'
says '^something that ckpt needs does not hold$'
wait $first; nothing_left plain
expect 1 check plain --peers 2 --timeout 1 --json
json_is 'd["holds"], [p["result"] for p in d["promises"]][-1]' "(False, 'BROKEN')"

# What a killed run left does not count as a peer, and goes with the next meeting or after an hour.
mkdir left
"$CKPT" check left --peers 2 >/dev/null & check=$!
for i in {1..500}; do [ -z "$(find left -name 'hello.*')" ] || break; sleep 0.02; done
kill -KILL $check; wait $check 2>/dev/null
[ -n "$(find left -name 'hello.*')" ] || fail "the killed run left nothing"
mkdir left/.ckpt-check.other-1-000000 left/.ckpt-check.old-1-000000
touch left/.ckpt-check.old-1-000000/data; touch -d '2 hours ago' left/.ckpt-check.old-1-000000
expect 0 check left
[ "$(ls -A left | tr '\n' ' ')" = ".ckpt-check.other-1-000000 .ckpt-check.peers " ] || fail "$(ls -A left)"
rmdir left/.ckpt-check.other-1-000000
peers 2 left --peers 2 --timeout 30

# A disk that takes only a part of a file, and SIGTERM: that is said, and nothing is left.
(trap '' XFSZ; ulimit -f 8; expect 1 check plain) || exit 1
says '^sync_file +BROKEN +a short write$'; says '^map +BROKEN +other bytes'; nothing_left plain
"$CKPT" check plain --peers 2 >.out 2>.err & check=$!
for i in {1..500}; do [ -z "$(find plain -name 'hello.*')" ] || break; sleep 0.02; done
kill -TERM $check; wait $check
[ $? -eq 143 ] || fail "SIGTERM did not end it"
nothing_left plain
