# status: one line, figures and an exit code, of stores that are well and of those that are not.
make_safetensors a.safetensors "w F32 2x3 $(f32 0 1 2 3 4 5)"
mkdir -p empty/.ckpt
expect 1 status empty; says '^WRONG: no checkpoint of run "main" yet; 0 committed$'
expect 2 status missing; complains '^ckpt: no such directory: missing'
import a.safetensors store step-1 --step 1 -o run=main; first=$ID
expect 2 status "store/$first"; complains 'its store is'
expect 0 status store; is_quiet; says "^ok: latest $first, step 1, [0-9]+ s old; 1 committed$"
expect 2 status store --run none; complains 'run "none" has no checkpoint'

# Its age: a whole number and a unit, of which nothing else is taken for one.
expect 0 status store --max-age 2h
expect 0 status store --max-age '90 min'
for age in 2 2x h -2h 0h 1.5h; do
  expect 2 status store "--max-age=$age"; complains "such as 2h or 90min; found '$age'"
done
expect 2 status store --max-age ''; complains "^ckpt: --max-age: needs a value, found ''"
sleep 2.1
expect 1 status store --max-age 1s; says "^WRONG: the latest is older than 1 s; latest $first, "
expect 1 status store --max-age 1s --json
json_is '(d["exit_code"], d["wrong"], d["latest_checkpoint"]["id"])' "(1, ['the latest is older than 1 s'], '$first')"

# An attempt is counted; it may be written right now.
mkdir "store/step-9.9.1"
expect 0 status store; says '; 1 committed, 1 unfinished$'

# A newer one that cannot be loaded, and one whose damage a list does not see.
import a.safetensors store step-2 --step 2 -o run=main; second=$ID
size=$(stat -c %s "store/$second/MANIFEST")
flip "store/$second/MANIFEST" 100
expect 1 status store; says '^WRONG: 1 checkpoint newer than the latest cannot be loaded; latest '"$first"
flip "store/$second/MANIFEST" $((size - 20))
expect 1 status store; says "newer than the latest cannot be loaded; 1 damaged \($second\); latest $first"
cp -r store all_damaged; flip "all_damaged/$first/MANIFEST" 100
expect 1 status all_damaged; says 'WRONG: none can be loaded: .*MANIFEST'

# What this ckpt is too old for, and what this user may not read, it cannot judge.
import a.safetensors future step-1 --step 1 -o run=main
cp -r "${scenario%/*}/../golden/bad/REVISION-newer" future/
expect 2 status future; says '^CANNOT SAY: 1 newer revision \(REVISION-newer\); latest '
expect 2 status future --json; json_is '(d["exit_code"], len(d["unknown"]))' '(2, 1)'

# Of several runs it speaks of main, or of the one that is named.
import a.safetensors store other -o run=else; other=$ID
expect 1 status store --json; json_is 'd["run"]' main
expect 0 status store --run else --json; json_is 'd["latest_checkpoint"]["id"]' "$other"
import a.safetensors models a -o run=gan; expect 0 status models --json; json_is 'd["run"]' gan
import a.safetensors models b -o run=other; expect 2 status models; complains 'name one by --run; there are gan, other$'

# Figures: also where it cannot say, so that no old ones stay.
expect 1 status store --prometheus
says '^ckpt_status\{store="store",run="main"\} 1$'; says '^ckpt_latest_step\{.*\} 1$'; says '^ckpt_damaged\{.*\} 1$'
says '^# HELP ckpt_latest_age_seconds '; says '^# TYPE ckpt_latest_age_seconds gauge$'; says_not mirror
expect 2 status missing --prometheus; says '^ckpt_status\{store="missing",run="main"\} 2$'
cp -r store $'two\nlines'; expect 1 status $'two\nlines' --prometheus; says '^ckpt_status\{store="two\\nlines",'
expect 2 status store --prometheus --json; complains 'exclude each other'

# The mirror's lag is wrong once what it lacks is older than that.
import a.safetensors near m -o mirror=far
import a.safetensors near n; sleep 2.1
expect 0 status near -o mirror=far; says '; mirror lacks 1$'
expect 0 status near -o mirror=far --max-age 1h --json
json_is '(d["mirror_lacks"], d["mirror_lag_seconds"] > 1)' '(1, True)'
expect 1 status near -o mirror=far --max-age 1s; says 'the mirror lags: it lacks 1, of which n[0-9.]* was saved'

# Also one that is older than what the mirror has, if that prunes none; a mirror that has nothing; a store that is lost.
import a.safetensors near o -o mirror=far; rm -r far/n.*
expect 0 status near -o mirror=far; says '; mirror lacks 1$'
expect 0 status near -o mirror=far -o mirror_keep_last=2; says '; mirror lacks 0$'
expect 1 status near -o mirror=nowhere; says '^WRONG: the mirror has none of the checkpoints: is its address right\?; '
rm -r near; expect 1 status near -o mirror=far; says '^WRONG: the latest is only in the mirror: the store lost it; '

# The latest is more than its MANIFEST: so says info, too.
import a.safetensors parts step-1; part=parts/$ID/PART_000; cp "$part" whole
is_wrong() {
  expect 1 status parts; says '^WRONG: the latest is damaged: PART_000: '
  expect 1 info parts; complains '^ckpt: damaged: PART_000: '; rm -f "$part"
}
rm "$part"; is_wrong; mkfifo "$part"; is_wrong; head -c 100 whole >"$part"; is_wrong
cp whole "$part"; expect 0 status parts; expect 0 info parts; is_quiet

# What another user cannot read: of the latest's session it may be newer, of an earlier one it is older.
if [ "$(id -u)" -eq 0 ]; then
  import a.safetensors barred a; import a.safetensors barred b; chmod 755 "$SCRATCH"
  cannot_say() { # COMMAND
    setpriv --reuid=65534 --regid=65534 --clear-groups "$CKPT" "$1" barred >.out 2>.err
    [ $? -eq 2 ] || fail "$1 of what is barred did not exit with 2"
  }
  chmod 000 barred/a.1.1; cannot_say status; says '^CANNOT SAY: 1 unreadable \(a.1.1\); latest b.2.1'
  cp -r barred/b.2.1 barred/c.2.1; chmod 000 barred/c.2.1
  cannot_say status; says '^CANNOT SAY: 1 checkpoint that may be newer than the latest cannot be read; 2 unreadable'
  cannot_say verify; says '^CANNOT SAY: 1 checkpoint that may be newer than it cannot be read$'
fi
