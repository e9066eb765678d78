package walsender

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Gap is a row of the table of gaps. The account, of cause none, has more in it.
type Gap struct {
	ID       int64      `json:"id"`
	Cause    string     `json:"cause"`
	What     string     `json:"what"`
	SystemID string     `json:"system_id"`
	FromLSN  *string    `json:"from_lsn"`
	FromAt   *time.Time `json:"from_at"`
	ToLSN    *string    `json:"to_lsn"`
	ToAt     *time.Time `json:"to_at"`
	FoundAt  time.Time  `json:"found_at"`

	Evidence json.RawMessage `json:"evidence,omitempty"`
	Mark     json.RawMessage `json:"mark,omitempty"`
	Revision int64           `json:"revision"`
}

// account is the cause of the row that is not a gap.
const account = "none"

// Lasts reports whether the gap has no end yet.
func (g *Gap) Lasts() bool { return g.ToLSN == nil }

// gapsStatement recognizes, by their effect, the statements of internal/postgres/gap. Each is sent by one place there,
// and is one step: it reads and writes as a whole.
func gapsStatement(sql string) *statement {
	st := &statement{kind: "select", parameters: slices.Repeat([]uint32{oidText}, mostParameters)}
	switch {
	case strings.Contains(sql, "SELECT hides()"):
		st.returns = []expr{known(oidText, func(sc *scope) *string { return text(sc.server.state.Catalog.why()) })}
	case !strings.Contains(sql, "cdc_outbox_gaps"):
		return nil
	case strings.Contains(sql, "'evidence',"):
		st.returns = []expr{typed{oidText, (*scope).lookAtGaps}}
	case strings.HasPrefix(sql, "SELECT (SELECT coalesce(jsonb_agg("):
		st.returns = []expr{known(oidText, func(sc *scope) *string { return encoded(sc.server.openGaps()) })}
	case strings.HasPrefix(sql, "INSERT INTO"):
		st.kind, st.do = "insert", (*scope).beginAccount
	case strings.HasPrefix(sql, "WITH moved AS"):
		st.kind, st.do = "insert", (*scope).keepAccount
	default:
		return nil
	}
	return st
}

// mostParameters is how many the longest of the statements has.
const mostParameters = 16

func encoded(v any) *string {
	b, _ := json.Marshal(v)
	return text(string(b))
}

// lookAtGaps is the one statement of a check.
func (sc *scope) lookAtGaps() (*string, error) {
	s := sc.server
	if s.denied {
		return nil, refuse("42501", "permission denied for table "+s.cfg.Table)
	}
	oldest := s.state.xid + 1
	for xid := range s.running {
		oldest = min(oldest, xid)
	}
	look := map[string]any{
		"system_id": s.cfg.SystemID, "now": time.Now().UTC().Truncate(time.Microsecond), "oldest": oldest,
		"next": s.state.xid + 1, "evidence": s.state.Catalog.evidence(), "whole": nil, "open": s.openGaps(),
		"position": nil, "slot": s.state.Slot.Confirmed.String(), "lsn": s.state.End.String(),
	}
	if i := s.account(); i >= 0 {
		look["whole"] = s.state.Gaps[i]
	}
	if row, has := s.state.Table[s.cfg.Slot]; has {
		look["position"] = row["position"]
	}
	return encoded(look), nil
}

// account is the place of the account, -1 if there is none.
func (s *Server) account() int {
	return slices.IndexFunc(s.state.Gaps, func(g Gap) bool { return g.Cause == account })
}

func (s *Server) openGaps() []Gap {
	open := []Gap{}
	for _, g := range s.state.Gaps {
		if g.Cause != account {
			open = append(open, g)
		}
	}
	return open
}

// beginAccount is INSERT … ON CONFLICT DO NOTHING.
func (sc *scope) beginAccount() (string, error) {
	s, of := sc.server, sc.st.arguments
	if s.account() >= 0 {
		return "INSERT 0 0", nil
	}
	s.addGap(Gap{
		Cause: account, SystemID: *of[1], FromLSN: of[2], FromAt: moment(of[3]), ToLSN: of[4], ToAt: moment(of[5]),
		Evidence: json.RawMessage(*of[6]), Mark: json.RawMessage(*of[7]),
	})
	return "INSERT 0 1", nil
}

// keepAccount moves the account on if nothing else has moved it meanwhile, and with it ends and opens a gap.
func (sc *scope) keepAccount() (string, error) {
	s, of := sc.server, sc.st.arguments
	i := s.account()
	if i < 0 || strconv.FormatInt(s.state.Gaps[i].ID, 10) != *of[0] ||
		strconv.FormatInt(s.state.Gaps[i].Revision, 10) != *of[1] {
		return "INSERT 0 0", nil
	}
	g := &s.state.Gaps[i]
	g.SystemID, g.ToLSN, g.ToAt, g.Mark = *of[2], of[3], moment(of[4]), json.RawMessage(*of[6])
	g.Revision++
	if of[5] != nil {
		g.Evidence = json.RawMessage(*of[5])
	}
	if of[7] != nil {
		g.FromLSN, g.FromAt = of[7], moment(of[8])
		s.say("the account begins at %s", *of[7])
	}
	for j := range s.state.Gaps {
		if ended := &s.state.Gaps[j]; strconv.FormatInt(ended.ID, 10) == *of[9] {
			ended.ToLSN, ended.ToAt = of[3], moment(of[4])
		}
	}
	s.wrote(1)
	if *of[10] == "" {
		return "INSERT 0 0", nil
	}
	s.addGap(Gap{
		Cause: *of[10], What: *of[11], SystemID: *of[2], FromLSN: of[12], FromAt: moment(of[13]), ToLSN: of[14],
		ToAt: moment(of[15]),
	})
	return "INSERT 0 1", nil
}

func (s *Server) addGap(g Gap) {
	s.lastGap++
	g.ID, g.FoundAt = s.lastGap, time.Now()
	s.state.Gaps = append(s.state.Gaps, g)
	s.say("gap %d: %s from %s to %s: %s", g.ID, g.Cause, shown(g.FromLSN), shown(g.ToLSN), g.What)
	s.wrote(1)
}

func shown(v *string) string {
	if v == nil {
		return "?"
	}
	return *v
}

// moment reads a parameter of type timestamptz, as text.
func moment(v *string) *time.Time {
	if v == nil {
		return nil
	}
	for _, layout := range []string{timeFormat, "2006-01-02 15:04:05.999999999Z07:00"} {
		if at, err := time.Parse(layout, *v); err == nil {
			return &at
		}
	}
	panic(fmt.Sprintf("%q is not a time", *v))
}
