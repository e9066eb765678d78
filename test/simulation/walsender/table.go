package walsender

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// tableColumns are the columns of the checkpoint's table, with their defaults.
var tableColumns = map[string]string{
	"slot": "", "system_id": "", "timeline": "", "position": "", "updated_at": "", "writes": "0",
}

func (s *Server) has(name string) bool {
	_, ok := tableColumns[name]
	return ok
}

// run executes a statement. A locked table makes it wait until its statement_timeout.
func (s *Server) run(c *session, st *statement) ([][]*string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awaitLock(c, st); err != nil {
		return nil, "", err
	}
	switch {
	case st.do != nil:
		tag, err := st.do(&scope{server: s, session: c, st: st})
		return nil, tag, err
	case st.kind == "select":
		rows, err := s.query(c, st)
		return rows, fmt.Sprintf("SELECT %d", len(rows)), err
	case st.kind == "update":
		return s.update(c, st)
	}
	return s.insert(c, st)
}

func (s *Server) awaitLock(c *session, st *statement) error {
	if st.kind == "select" || st.do != nil || !s.locked {
		return nil
	}
	limit := 24 * time.Hour
	if v := c.setting("statement_timeout"); *v != "0" {
		ms, _ := strconv.Atoi(*v)
		limit = time.Duration(ms) * time.Millisecond
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for s.locked {
		grown := s.grown
		s.mu.Unlock()
		select {
		case <-grown:
		case <-c.ended:
			s.mu.Lock()
			return fatal("57P01", "terminating connection due to administrator command")
		case <-timer.C:
			s.mu.Lock()
			return refuse("57014", "canceling statement due to statement timeout")
		}
		s.mu.Lock()
	}
	return nil
}

// query is a SELECT. The lock is held.
func (s *Server) query(c *session, st *statement) (rows [][]*string, err error) {
	sc := &scope{server: s, session: c, st: st}
	if st.table == "" {
		row, err := sc.values(st.returns)
		return [][]*string{row}, err
	}
	from, err := s.rows(st.table)
	if err != nil {
		return nil, err
	}
	for _, row := range from {
		sc.row = row
		ok, err := sc.holds(st.where)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		values, err := sc.values(st.returns)
		if err != nil {
			return nil, err
		}
		rows = append(rows, values)
	}
	return rows, nil
}

// rows returns a table's rows.
func (s *Server) rows(table string) ([]map[string]string, error) {
	switch table {
	case "pg_replication_slots":
		slot := s.state.Slot
		row := map[string]string{
			"slot_name": slot.Name, "plugin": "pgoutput", "slot_type": "logical", "database": s.cfg.Database,
			"temporary": "f", "two_phase": "f", "restart_lsn": slot.Restart.String(),
			"confirmed_flush_lsn": slot.Confirmed.String(), "wal_status": "reserved", "active": *truth(s.holder != 0),
		}
		if s.cfg.Version >= 170000 && s.standby != nil { // a copy keeps its mark when its server is promoted
			row["failover"], row["synced"] = "t", *truth(s.state.Timeline > 1)
		}
		if s.holder != 0 {
			row["active_pid"] = strconv.Itoa(s.holder)
		}
		return []map[string]string{row}, nil
	case s.cfg.Table:
		if s.denied {
			return nil, refuse("42501", "permission denied for table "+table)
		}
		var rows []map[string]string
		for _, key := range slices.Sorted(keys(s.state.Table)) {
			rows = append(rows, s.state.Table[key])
		}
		return rows, nil
	}
	return nil, refuse("42P01", fmt.Sprintf("relation %q does not exist", table))
}

func keys(m map[string]map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (sc *scope) values(of []expr) ([]*string, error) {
	row := make([]*string, len(of))
	for i, e := range of {
		v, err := e.eval(sc)
		if err != nil {
			return nil, err
		}
		row[i] = v
	}
	return row, nil
}

func (sc *scope) holds(where expr) (bool, error) {
	if where == nil {
		return true, nil
	}
	v, err := where.eval(sc)
	return v != nil && *v == "t", err
}

func (s *Server) update(c *session, st *statement) (out [][]*string, tag string, err error) {
	rows, err := s.rows(st.table)
	if err != nil {
		return nil, "", err
	}
	sc := &scope{server: s, session: c, st: st}
	n := 0
	for _, row := range rows {
		sc.row = row
		ok, err := sc.holds(st.where)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			continue
		}
		if err := sc.assign(row); err != nil {
			return nil, "", err
		}
		n++
		values, err := sc.values(st.returns)
		if err != nil {
			return nil, "", err
		}
		out = append(out, values)
	}
	s.wrote(n)
	return out, fmt.Sprintf("UPDATE %d", n), nil
}

// assign applies SET to the row, from the values before it.
func (sc *scope) assign(row map[string]string) error {
	values := make([]*string, len(sc.st.set))
	for i, a := range sc.st.set {
		if !sc.server.has(a.column) {
			return refuse("42703", fmt.Sprintf("column %q does not exist", a.column))
		}
		v, err := a.value.eval(sc)
		if err != nil {
			return err
		}
		values[i] = v
	}
	for i, a := range sc.st.set {
		if values[i] == nil {
			delete(row, a.column)
		} else {
			row[a.column] = *values[i]
		}
	}
	return nil
}

func (s *Server) insert(c *session, st *statement) (out [][]*string, tag string, err error) {
	if _, err := s.rows(st.table); err != nil {
		return nil, "", err
	}
	sc := &scope{server: s, session: c, st: st}
	if ok, err := sc.holds(st.given); err != nil || !ok {
		return nil, "INSERT 0 0", err
	}
	values, err := sc.values(st.values)
	if err != nil {
		return nil, "", err
	}
	row := map[string]string{"updated_at": *clock(sc)}
	for name, value := range tableColumns {
		if value != "" {
			row[name] = value
		}
	}
	for i, name := range st.columns {
		if !s.has(name) {
			return nil, "", refuse("42703", fmt.Sprintf("column %q does not exist", name))
		}
		if values[i] != nil {
			row[name] = *values[i]
		}
	}
	there, exists := s.state.Table[row["slot"]]
	switch {
	case !exists:
		s.state.Table[row["slot"]] = row
		sc.row = row
	case st.conflict == "nothing":
		return nil, "INSERT 0 0", nil
	case st.conflict == "update":
		sc.row, sc.refused = there, row
		ok, err := sc.holds(st.where)
		if err != nil || !ok {
			return nil, "INSERT 0 0", err
		}
		if err := sc.assign(there); err != nil {
			return nil, "", err
		}
	default:
		return nil, "", refuse("23505", "duplicate key value violates unique constraint")
	}
	s.wrote(1)
	if len(st.returns) > 0 {
		values, err := sc.values(st.returns)
		return [][]*string{values}, "INSERT 0 1", err
	}
	return nil, "INSERT 0 1", nil
}

// wrote is the WAL of a commit.
func (s *Server) wrote(rows int) {
	if rows > 0 {
		s.state.End += LSN(160 * rows)
		s.grow()
	}
}
