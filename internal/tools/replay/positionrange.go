package replay

import (
	"math"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/offsets"
)

// window is a range of positions, both ends included.
type window struct{ from, to offsets.Position }

func (w window) has(p offsets.Position) bool {
	return p.Compare(w.from) >= 0 && p.Compare(w.to) <= 0
}

// window reads --from-position and --to-position. LSN 0 is left out: replayed records have it.
func (c *Choice) window() (w window, err error) {
	first := offsets.Position{Commit: 1}
	w = window{from: first, to: offsets.Position{Commit: math.MaxUint64, Index: math.MaxUint32}}
	for _, p := range []struct {
		flag, text string
		index      uint32
		to         *offsets.Position
	}{{"--from-position", c.FromPosition, 0, &w.from}, {"--to-position", c.ToPosition, math.MaxUint32, &w.to}} {
		if p.text == "" {
			continue
		}
		if commit, err := lsn.Parse(p.text); err == nil {
			*p.to = offsets.Position{Commit: commit, Index: p.index}
		} else if *p.to, err = offsets.ParsePosition(p.text); err != nil {
			return w, fault.Usage(p.flag+" is not a position",
				"write it as the header position has it, 0000000016b374d8-0000002a, or the LSN of a commit, 0/16B374D8")
		}
	}
	if w.from.Compare(first) < 0 {
		w.from = first
	}
	if w.from.Compare(w.to) > 0 {
		return w, fault.Usage("--from-position lies after --to-position", "change them over")
	}
	return w, nil
}
