package walsender

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// expr is an expression. Values are texts as Postgres prints them, nil for NULL.
type expr interface {
	oid() uint32
	eval(*scope) (*string, error)
}

// typed is an expression of a known type.
type typed struct {
	kind uint32
	f    func(*scope) (*string, error)
}

func (t typed) oid() uint32                     { return t.kind }
func (t typed) eval(sc *scope) (*string, error) { return t.f(sc) }
func known(oid uint32, f func(*scope) *string) typed {
	return typed{oid, func(sc *scope) (*string, error) { return f(sc), nil }}
}
func constant(oid uint32, v string) typed { return known(oid, func(*scope) *string { return &v }) }

func text(s string) *string { return &s }
func truth(b bool) *string {
	if b {
		return text("t")
	}
	return text("f")
}
func itoa(n int) []byte { return []byte(strconv.Itoa(n)) }

func (p *parser) expression() (expr, error) { return p.binary(0) }

var levels = [][]string{{"OR"}, {"AND"}, {"=", "<>", "<", ">", "<=", ">="}, {"+", "-", "||"}}

func (p *parser) binary(level int) (expr, error) {
	if level == len(levels) {
		return p.cast()
	}
	left, err := p.binary(level + 1)
	for err == nil {
		op := ""
		for _, o := range levels[level] {
			if p.acceptWords(o) {
				op = o
				break
			}
		}
		switch {
		case op != "":
			var right expr
			if right, err = p.binary(level + 1); err == nil {
				left = operate(op, left, right)
			}
		case level == 2 && p.acceptWords("IS", "NOT", "NULL"):
			left = null(left, false)
		case level == 2 && p.acceptWords("IS", "NULL"):
			left = null(left, true)
		default:
			return left, nil
		}
	}
	return nil, err
}

func null(e expr, want bool) expr {
	return typed{oidBool, func(sc *scope) (*string, error) {
		v, err := e.eval(sc)
		return truth((v == nil) == want), err
	}}
}

func operate(op string, a, b expr) expr {
	kind := uint32(oidBool)
	switch op {
	case "+", "-", "||":
		kind = a.oid()
	}
	return typed{kind, func(sc *scope) (*string, error) {
		x, err := a.eval(sc)
		if err != nil {
			return nil, err
		}
		y, err := b.eval(sc)
		if err != nil || x == nil || y == nil {
			return nil, err
		}
		c := compare(*x, *y)
		switch op {
		case "OR":
			return truth(*x == "t" || *y == "t"), nil
		case "AND":
			return truth(*x == "t" && *y == "t"), nil
		case "=":
			return truth(c == 0), nil
		case "<>":
			return truth(c != 0), nil
		case "<":
			return truth(c < 0), nil
		case ">":
			return truth(c > 0), nil
		case "<=":
			return truth(c <= 0), nil
		case ">=":
			return truth(c >= 0), nil
		case "||":
			return text(*x + *y), nil
		}
		i, _ := strconv.ParseInt(*x, 10, 64)
		j, _ := strconv.ParseInt(*y, 10, 64)
		if op == "-" {
			j = -j
		}
		return text(strconv.FormatInt(i+j, 10)), nil
	}}
}

// ParseLSN reads a position, 0 where the text is none.
func ParseLSN(s string) LSN {
	high, low, ok := strings.Cut(s, "/")
	h, err1 := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0
	}
	return LSN(h<<32 | l)
}

// compare orders positions, numbers and texts.
func compare(a, b string) int {
	if x, y := ParseLSN(a), ParseLSN(b); x != 0 || y != 0 {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	x, err1 := strconv.ParseInt(a, 10, 64)
	y, err2 := strconv.ParseInt(b, 10, 64)
	if err1 == nil && err2 == nil {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	return strings.Compare(a, b)
}

func (p *parser) cast() (expr, error) {
	e, err := p.primary()
	for err == nil && p.acceptWords("::") {
		kind, ok := oids[strings.ToLower(p.next())]
		if ok {
			e = typed{kind, e.eval}
		}
		if p.acceptWords("[", "]") {
			kind = oidText
		}
	}
	return e, err
}

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch {
	case t == "":
		return nil, fmt.Errorf("the statement ends early")
	case t == "(":
		return p.parenthesis()
	case t[0] == '\'':
		return constant(oidText, strings.ReplaceAll(t[1:len(t)-1], "''", "'")), nil
	case t[0] >= '0' && t[0] <= '9':
		return constant(oidInt8, t), nil
	case t[0] == '$':
		n, _ := strconv.Atoi(t[1:])
		return known(oidText, func(sc *scope) *string {
			if n > len(sc.st.arguments) {
				return nil
			}
			return sc.st.arguments[n-1]
		}), nil
	case strings.EqualFold(t, "NULL"):
		return known(oidText, func(*scope) *string { return nil }), nil
	case strings.EqualFold(t, "true") || strings.EqualFold(t, "false"):
		return constant(oidBool, strings.ToLower(t[:1])), nil
	case strings.EqualFold(t, "CASE"):
		return p.cases()
	}
	name := strings.Trim(t, `"`)
	qualifier := ""
	for p.acceptWords(".") {
		qualifier, name = name, strings.Trim(p.next(), `"`)
	}
	if p.acceptWords("(") {
		return p.call(strings.ToLower(name))
	}
	kind := uint32(oidText)
	switch name {
	case "position", "confirmed_flush_lsn", "restart_lsn":
		kind = oidLSN
	case "updated_at":
		kind = oidTime
	case "timeline", "active_pid":
		kind = oidInt4
	case "writes", "generation", "serial", "count", "number":
		kind = oidInt8
	}
	return typed{kind, func(sc *scope) (*string, error) { return sc.column(qualifier, name) }}, nil
}

var (
	setConfig = regexp.MustCompile(`set_config\('(\w+)', '([^']*)'`)
	setValues = regexp.MustCompile(`\('(\w+)', '([^']*)'\)`)
	setName   = regexp.MustCompile(`name = '(\w+)'`)
)

// parenthesis is an expression or a query in parentheses. What the relay asks the catalog of settings is not evaluated
// but known.
func (p *parser) parenthesis() (expr, error) {
	if !strings.EqualFold(p.peek(), "SELECT") {
		e, err := p.expression()
		if err == nil {
			err = p.want(")")
		}
		return e, err
	}
	from, depth := p.tokens[p.at][0], 1
	to := p.at
	for ; to < len(p.tokens); to++ {
		switch p.sql[p.tokens[to][0]:p.tokens[to][1]] {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if to == len(p.tokens) {
		return nil, fmt.Errorf("a parenthesis is not closed")
	}
	raw := p.sql[from:p.tokens[to][0]]
	switch {
	case strings.Contains(raw, "pg_settings"), strings.Contains(raw, "set_config("):
		p.at = to + 1
		return settings(raw), nil
	case strings.Contains(raw, "string_agg"):
		p.at = to + 1
		return known(oidText, func(*scope) *string { return nil }), nil
	}
	st, err := p.statement()
	if err == nil {
		err = p.want(")")
	}
	if err != nil {
		return nil, err
	}
	return typed{st.returns[0].oid(), func(sc *scope) (*string, error) {
		st := *st
		st.arguments = sc.st.arguments
		rows, err := sc.server.query(sc.session, &st)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return rows[0][0], nil
	}}, nil
}

// settings is a question about a setting that may set it for the session.
func settings(raw string) expr {
	return known(oidText, func(sc *scope) *string {
		for _, m := range setConfig.FindAllStringSubmatch(raw, -1) {
			sc.session.params[m[1]] = m[2]
		}
		if strings.Contains(raw, "set_config(s.name, w.value") {
			for _, m := range setValues.FindAllStringSubmatch(raw, -1) {
				_, own := sc.session.client[m[1]]
				if !own || !strings.Contains(raw, "s.source <> 'client'") {
					sc.session.params[m[1]] = m[2]
				}
			}
			return text("0")
		}
		if m := setName.FindStringSubmatch(raw); m != nil {
			return sc.session.setting(m[1])
		}
		return nil
	})
}

func (p *parser) cases() (expr, error) {
	var when, then []expr
	var otherwise expr
	for !p.acceptWords("END") {
		var e expr
		var err error
		switch {
		case p.acceptWords("WHEN"):
			if e, err = p.expression(); err == nil {
				when = append(when, e)
				if err = p.want("THEN"); err == nil {
					e, err = p.expression()
					then = append(then, e)
				}
			}
		case p.acceptWords("ELSE"):
			otherwise, err = p.expression()
		default:
			err = fmt.Errorf("%q in CASE", p.peek())
		}
		if err != nil {
			return nil, err
		}
	}
	return typed{then[0].oid(), func(sc *scope) (*string, error) {
		for i := range when {
			v, err := when[i].eval(sc)
			if err != nil {
				return nil, err
			}
			if v != nil && *v == "t" {
				return then[i].eval(sc)
			}
		}
		if otherwise == nil {
			return nil, nil
		}
		return otherwise.eval(sc)
	}}, nil
}
