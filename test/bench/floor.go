package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
)

// ratioFloor is the least rate of one contender beside another.
type ratioFloor struct {
	key, other string
	least      float64
}

// floors are ratios within a round that hold on any machine; what a change costs shows long before, in the tables. One
// round that reaches them is enough: whatever else the machine does can only take from a pass. So there are more rounds
// as long as none has.
var floors = []ratioFloor{
	{ourStream, neverNaps, .8},
	{atLeastOnce, napping, .3},
}

// attempts is how often the load is measured before the connector is too slow.
const attempts = 3

// floor runs a small load and fails where the connector is far slower than the readers beside it.
func floor(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	rows := flags.Int("rows", 150_000, "rows to load")
	rounds := flags.Int("rounds", 3, "passes of each contender")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if missing := missingBinary(); missing != "" {
		return errors.New(missing)
	}
	b, err := makeBed(ctx, *rows)
	if err != nil {
		return err
	}
	defer b.close()
	m, err := newMeter(b, *rounds, 2, "")
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(contenders(b), func(c contender) bool {
		return !slices.ContainsFunc(floors, func(f ratioFloor) bool { return c.key == f.key || c.key == f.other })
	})
	var passes []*series
	for range attempts {
		m.all = nil
		if err := m.measure(ctx, tenPerTx, workload{rows: *rows, perTx: 10}, all); err != nil {
			return err
		}
		passes = moreRounds(passes, m.all)
		if err = belowFloor(passes); err == nil {
			return nil
		}
		fmt.Printf("%v\n\n", err)
	}
	return err
}

// moreRounds appends the passes of the same contenders.
func moreRounds(all, more []*series) []*series {
	if all == nil {
		return more
	}
	for i := range all {
		all[i].passes = append(all[i].passes, more[i].passes...)
	}
	return all
}

func belowFloor(all []*series) error {
	for _, f := range floors {
		ratios := find(all, tenPerTx, f.key).ratios(find(all, tenPerTx, f.other), rate)
		if len(ratios) == 0 {
			return fmt.Errorf("%s: not measured beside %q", contenderName(f.key), contenderName(f.other))
		}
		best := slices.Max(ratios)
		fmt.Printf("%s beside %q: best round %.2f, floor %.2f\n", contenderName(f.key), contenderName(f.other), best,
			f.least)
		if best < f.least {
			return fmt.Errorf("%s: at best %.2f times the rows/s of %q, the floor is %.2f", contenderName(f.key), best,
				contenderName(f.other), f.least)
		}
	}
	return nil
}
