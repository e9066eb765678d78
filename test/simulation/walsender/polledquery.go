package walsender

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The statements of source: polling are recognized by their effect, and not read as a language: each is sent by one
// place of the relay.

var (
	arrays = regexp.MustCompile(`'\{([^}']*)\}'`)
	limits = regexp.MustCompile(`LIMIT (\d+)`)
)

// polledColumns are what a read of lanes returns: the lane, the address, and the table as it lies.
var polledColumns = []column{
	{name: "l", oid: oidInt4},
	{name: "tableoid", oid: 26},
	{name: "ctid", oid: 27},
	{name: "seq", oid: oidInt8},
	{name: "id", oid: oidText},
	{name: "aggregate_type", oid: oidText},
	{name: "aggregate_id", oid: oidText},
	{name: "event_type", oid: oidText},
	{name: "payload", oid: oidText},
	{name: "published_at", oid: oidTime},
}

// polls reports whether a message of the simple protocol is for the table.
func (c *session) polls(sql string) bool {
	return c.server.polled != nil && (strings.HasPrefix(sql, "BEGIN") || strings.Contains(sql, "COMMIT") ||
		strings.Contains(sql, "_advisory_") || strings.Contains(sql, "tableoid, ctid, *"))
}

// betweenTransactions is the pause between two transactions of one message, so that other sessions come in between.
const betweenTransactions = 20 * time.Millisecond

// poll runs the statements of a message, the statements of a transaction as one step.
func (c *session) poll(sql string) error {
	all := strings.Split(strings.ReplaceAll(sql, "\n", " "), ";")
	for len(all) > 0 {
		n := 1 + slices.IndexFunc(all, func(one string) bool { return strings.TrimSpace(one) == "COMMIT" })
		if n == 0 {
			n = len(all)
		}
		if err := c.pollTogether(all[:n]); err != nil {
			return err
		}
		if all = all[n:]; len(all) > 0 {
			time.Sleep(betweenTransactions)
		}
	}
	return nil
}

func (c *session) pollTogether(statements []string) (err error) {
	s := c.server
	s.mu.Lock()
	select {
	case <-c.ended:
		s.mu.Unlock()
		return fatal("57P01", "terminating connection due to administrator command")
	default:
	}
	if c.txn != nil {
		c.txn.idle.Stop()
	}
	var marked []*polledRow
	for _, one := range statements {
		var now []*polledRow
		if now, err = c.pollOne(strings.TrimSpace(one)); err != nil {
			c.finish(false)
			break
		}
		marked = append(marked, now...)
	}
	c.rest()
	s.mu.Unlock()
	for _, r := range marked {
		s.say("%s is marked by %d", r.ID, c.pid)
		if s.Marked != nil {
			s.Marked(r.Row)
		}
	}
	return err
}

func (c *session) pollOne(sql string) (marked []*polledRow, err error) {
	tag := "SELECT 1"
	switch {
	case sql == "":
		return nil, nil
	case strings.HasPrefix(sql, "BEGIN"):
		c.begin()
		tag = "BEGIN"
	case strings.HasPrefix(sql, "SET LOCAL"):
		tag = "SET"
	case sql == "COMMIT":
		marked, tag = c.finish(true), "COMMIT"
	case strings.HasPrefix(sql, "SELECT WHERE"): // the last one is about a setting that some versions have
		switch {
		case strings.Contains(sql, "pg_try_advisory_lock"):
			c.keep(numbersOf(sql))
		case strings.Contains(sql, "pg_advisory_unlock"):
			c.letGo()
		}
		c.answer(nil)
	case c.txn == nil:
		return nil, refuse("25P01", "there is no transaction in progress, for: "+sql)
	case strings.HasPrefix(sql, "UPDATE"), strings.HasPrefix(sql, "DELETE"):
		lists := arrays.FindAllStringSubmatch(sql, -1)
		n := c.mark(strings.Split(lists[0][1], ","), strings.Split(strings.Trim(lists[2][1], `"`), `","`))
		tag = fmt.Sprintf("%s %d", sql[:6], n)
	default:
		err = c.pollRows(sql)
	}
	if err == nil {
		c.backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	}
	return marked, err
}

// pollRows runs a statement that returns rows.
func (c *session) pollRows(sql string) error {
	t := c.server.polled
	switch {
	case strings.HasPrefix(sql, "EXPLAIN"):
		c.answer([]uint32{oidText}, []string{"Index Cond: sha256"})
	case strings.HasPrefix(sql, "SELECT (SELECT count(*)"):
		c.columns([]column{{oid: oidInt8}, {oid: oidText}})
		c.backend.Send(&pgproto3.DataRow{Values: [][]byte{itoa(t.unmarked()), nil}})
	case strings.Contains(sql, "pg_locks"):
		var rows [][]string
		for lane := range lanes {
			if holder := t.held[lane]; holder != nil {
				transaction := "0"
				if holder.txn != nil {
					transaction = strconv.Itoa(holder.txn.number)
				}
				rows = append(rows, []string{
					strconv.Itoa(lane), strconv.Itoa(holder.pid), transaction, "relay",
					holder.client["application_name"], "",
				})
			}
		}
		c.answer([]uint32{oidInt4, oidInt4, oidText, oidText, oidText, oidText}, rows...)
	case strings.Contains(sql, "tableoid, ctid, *"):
		c.readLanes(sql)
	case strings.Contains(sql, "FROM unnest"):
		c.chooseLanes(sql)
	default:
		return refuse("42601", "the stand-in does not know "+spaces.ReplaceAllString(sql, " "))
	}
	return nil
}

// chooseLanes answers which of the lanes have rows, and whether they could be locked; and whether lanes could be locked
// again, with rows or without.
func (c *session) chooseLanes(sql string) {
	locks, again := strings.Contains(sql, "pg_try_advisory_xact_lock"), strings.HasPrefix(sql, "SELECT l,")
	limit := lanes
	if all := limits.FindAllStringSubmatch(sql, -1); len(all) > 0 {
		limit, _ = strconv.Atoi(all[len(all)-1][1])
	}
	var rows [][]string
	for _, lane := range numbersOf(sql) {
		if len(rows) == limit {
			break
		}
		if !again && len(c.server.polled.unpublished(lane, 1)) == 0 {
			continue
		}
		row := []string{strconv.Itoa(lane)}
		if locks {
			row = append(row, *truth(c.lock(lane)))
		}
		rows = append(rows, row)
	}
	oids := []uint32{oidInt4}
	if locks {
		oids = append(oids, oidBool)
	}
	c.answer(oids, rows...)
}

// readLanes answers the first rows of lanes.
func (c *session) readLanes(sql string) {
	c.columns(polledColumns)
	limit, _ := strconv.Atoi(limits.FindStringSubmatch(sql)[1])
	for _, lane := range numbersOf(sql) {
		for _, r := range c.server.polled.unpublished(lane, limit) {
			c.backend.Send(&pgproto3.DataRow{Values: [][]byte{
				itoa(lane), itoa(relationOID), []byte(r.address()), itoa(r.seq), []byte(r.ID), []byte(r.Topic),
				[]byte(r.Key), []byte("changed"), []byte(r.ID), nil,
			}})
		}
	}
}

// numbersOf returns the numbers in the first array.
func numbersOf(sql string) (numbers []int) {
	for text := range strings.SplitSeq(arrays.FindStringSubmatch(sql)[1], ",") {
		if n, err := strconv.Atoi(text); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// answer sends rows of as many columns as they have.
func (c *session) answer(oids []uint32, rows ...[]string) {
	out := make([]column, len(oids))
	for i, oid := range oids {
		out[i].oid = oid
	}
	c.columns(out)
	for _, row := range rows {
		d := &pgproto3.DataRow{}
		for _, v := range row {
			d.Values = append(d.Values, []byte(v))
		}
		c.backend.Send(d)
	}
}

// polledFacts are the answers about server and table that a relay asks for at its start.
func polledFacts(sql string) *statement {
	st := &statement{kind: "select"}
	switch {
	case strings.Contains(sql, "server_encoding"):
		st.returns = []expr{
			known(oidInt4, func(sc *scope) *string { return sc.session.setting("server_version_num") }),
			constant(oidBool, "f"), constant(oidText, "relay"), constant(oidText, "UTF8"),
		}
	case strings.Contains(sql, "row_security_active"):
		st.returns = []expr{constant(oidText, polledCatalog)}
		st.parameters = slices.Repeat([]uint32{oidText}, 6)
	case strings.Contains(sql, "backend_type = 'walsender'"):
		st.returns = []expr{constant(oidText, "")}
	default:
		return nil
	}
	return st
}

const polledCatalog = `{"kind": "r", "persistence": "p", "may_select": true, "may_mark": true, "index": "true",
	"columns": [
		{"name": "seq", "type": "bigint", "category": "N", "not_null": true, "identity": "a", "cache": 1},
		{"name": "id", "type": "text", "category": "S", "not_null": true},
		{"name": "aggregate_type", "type": "text", "category": "S", "not_null": true},
		{"name": "aggregate_id", "type": "text", "category": "S", "not_null": true},
		{"name": "event_type", "type": "text", "category": "S", "not_null": true},
		{"name": "payload", "type": "text", "category": "S"},
		{"name": "published_at", "type": "timestamp with time zone", "category": "D"}]}`
