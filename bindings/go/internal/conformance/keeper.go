package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	ckpt "github.com/ckpt-engine/ckpt/bindings/go"
)

var _ = list(map[string]func(r *runner) any{
	"keeper.new": func(r *runner) any {
		return r.put(0, try(ckpt.NewKeeper(get[*ckpt.Store](r, 1), r.rank(2), r.rank(3), r.options)))
	},
	"keeper.tell": runKeeperTell,
	"keeper.step": func(r *runner) any {
		votes := try(r.keeper().Step(r.int(1), r.int(2) != 0))
		return words(strings.Fields(strings.Trim(fmt.Sprint(votes), "[]")))
	},
	"keeper.note": func(r *runner) any { return done(r.keeper().AtStep(r.int(1))) },
	"keeper.decide": func(r *runner) any {
		var votes ckpt.Votes
		for i := range votes {
			votes[i] = r.int(1 + i)
		}
		return r.decide(&votes)
	},
	"keeper.decide_alone": func(r *runner) any { return r.decide(nil) },
	"keeper.needs_votes":  func(r *runner) any { return words{textOf(r.keeper().NeedsVotes())} },
	"keeper.stop": func(r *runner) any {
		r.keeper().Stop(int32(r.int(1)))
		return nil
	},
	"keeper.catch":    func(r *runner) any { return done(r.keeper().Catch(int32(r.int(1)))) },
	"keeper.stopping": func(r *runner) any { return words{r.keeper().Stopping()} },
	"keeper.warning":  func(r *runner) any { return words{r.keeper().Warning()} },
	"keeper.begin":    runKeeperBegin,
	"keeper.saved":    func(r *runner) any { return words{r.keeper().Saved()} },
	"keeper.find":     func(r *runner) any { return words{try(r.keeper().Find(r.words[1]))} },
	"keeper.pass_over": func(r *runner) any {
		status := ckpt.Status(1)
		for status.Name() != r.words[1] {
			status++
		}
		return done(r.keeper().PassOver(status, "damaged"))
	},
	"keeper.restored": func(r *runner) any { return done(r.keeper().Restored(get[*ckpt.Reader](r, 1))) },
	"keeper.number": func(r *runner) any {
		all := r.keeper().Counters()
		if r.words[1] == "metric" {
			all = r.keeper().Metrics()
		}
		names := append(slices.Sorted(maps.Keys(all)), make([]string, r.int(2)+1)...)
		return fields{"name": names[r.int(2)], "value": all[names[r.int(2)]]}
	},
})

func (r *runner) keeper() *ckpt.Keeper { return get[*ckpt.Keeper](r, 0) }

func (r *runner) decide(votes *ckpt.Votes) any {
	return words{strings.ToLower(try(r.keeper().Decide(votes)).String())}
}

func runKeeperTell(r *runner) any {
	tell, known := map[string]func(string, float64) error{
		"counter": r.keeper().TellCounter, "metric": r.keeper().TellMetric,
	}[r.words[1]]
	if !known {
		r.fail("expected counter or metric, found %s", r.words[1])
	}
	return done(tell(r.words[2], r.parseFloat(r.words[3])))
}

func runKeeperBegin(r *runner) any {
	keeper := get[*ckpt.Keeper](r, 1)
	planner := keeper
	if from, given := r.keys["from"]; given {
		planner = getNamed[*ckpt.Keeper](r, from)
	}
	plan := try(planner.Plan(r.words[3]))
	made := try(keeper.Save(get[*ckpt.Session](r, 2), plan, r.options))
	if made == nil {
		return words{"0"}
	}
	r.put(0, made)
	return words{"1"}
}
