package walsender

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// call parses a function's arguments and returns the call.
func (p *parser) call(name string) (expr, error) {
	var args []expr
	if !p.acceptWords(")") {
		if err := p.expressions(&args); err != nil {
			return nil, err
		}
		if err := p.want(")"); err != nil {
			return nil, err
		}
	}
	switch name {
	case "greatest", "least", "coalesce":
		return typed{args[0].oid(), func(sc *scope) (*string, error) { return choose(sc, name, args) }}, nil
	case "to_jsonb":
		return known(oidText, func(sc *scope) *string { return sc.json() }), nil
	case "current_setting", "set_config":
		return typed{oidText, func(sc *scope) (*string, error) {
			v, err := args[0].eval(sc)
			if err != nil || v == nil {
				return nil, err
			}
			if name == "set_config" {
				value, err := args[1].eval(sc)
				if err != nil || value == nil {
					return nil, err
				}
				sc.session.params[*v] = *value
			}
			return sc.session.setting(*v), nil
		}}, nil
	}
	f, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("function %s is not known", name)
	}
	return f, nil
}

func clock(*scope) *string { return text(time.Now().UTC().Format(timeFormat)) }

var functions = map[string]typed{
	"current_database":          known(oidText, func(sc *scope) *string { return &sc.server.cfg.Database }),
	"pg_is_in_recovery":         known(oidBool, func(*scope) *string { return text("f") }),
	"pg_backend_pid":            known(oidInt4, func(sc *scope) *string { return text(strconv.Itoa(sc.session.pid)) }),
	"pg_current_wal_insert_lsn": known(oidLSN, func(sc *scope) *string { return text(sc.server.state.End.String()) }),
	"pg_current_wal_lsn":        known(oidLSN, func(sc *scope) *string { return text(sc.server.state.End.String()) }),
	"pg_last_wal_replay_lsn":    known(oidLSN, func(*scope) *string { return nil }),
	"now":                       known(oidTime, clock),
	"clock_timestamp":           known(oidTime, clock),
}

// choose is greatest, least or coalesce.
func choose(sc *scope, name string, args []expr) (best *string, err error) {
	for _, a := range args {
		v, err := a.eval(sc)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		switch {
		case best == nil:
			best = v
		case name == "greatest" && compare(*v, *best) > 0, name == "least" && compare(*v, *best) < 0:
			best = v
		}
		if name == "coalesce" {
			return best, nil
		}
	}
	return best, nil
}

// setting is the value in force in the session, never nil. The server's lock is held.
func (c *session) setting(name string) *string {
	if v, ok := c.params[name]; ok {
		return &v
	}
	switch name {
	case "server_version_num":
		return text(strconv.Itoa(c.server.cfg.Version))
	case "wal_sender_timeout":
		return text(strconv.FormatInt(c.server.cfg.SenderTimeout.Milliseconds(), 10))
	case "transaction_timeout":
		return text(strconv.FormatInt(c.server.cfg.TransactionTimeout.Milliseconds(), 10))
	}
	return text("0")
}

// scope is what an expression may refer to.
type scope struct {
	server  *Server
	session *session
	st      *statement
	row     map[string]string
	refused map[string]string // the row of an INSERT that met another: EXCLUDED
}

func (sc *scope) column(qualifier, name string) (*string, error) {
	row := sc.row
	if qualifier == "excluded" || qualifier == "EXCLUDED" {
		row = sc.refused
	}
	if v, ok := row[name]; ok {
		return &v, nil
	}
	if sc.st.table == sc.server.cfg.Table && !sc.server.has(name) {
		return nil, refuse("42703", fmt.Sprintf("column %q does not exist", name))
	}
	return nil, nil
}

// numbers are the columns that JSON has without quotes.
var numbers = map[string]bool{"timeline": true, "active_pid": true, "writes": true, "generation": true, "number": true}

func (sc *scope) json() *string {
	if sc.row == nil {
		return nil
	}
	out := map[string]any{}
	for k, v := range sc.row {
		switch {
		case v == "t" || v == "f":
			out[k] = v == "t"
		case numbers[k]:
			out[k] = json.Number(v)
		default:
			out[k] = v
		}
	}
	b, _ := json.Marshal(out)
	return text(string(b))
}
