package walsender

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The SQL of the relay's sessions is a handful of statements that change now and then. So the stand-in reads a small
// language, with which a changed statement goes on working, rather than whole statements:
//
//	SELECT expr, … [FROM table [alias] [WHERE expr]]
//	INSERT INTO table (column, …) VALUES (expr, …) | SELECT expr, … [WHERE expr]
//		[ON CONFLICT (column) DO NOTHING | UPDATE SET …]
//		[RETURNING expr, …]
//	UPDATE table SET column = expr, … WHERE expr [RETURNING expr, …]

const (
	oidBool = 16
	oidInt8 = 20
	oidInt4 = 23
	oidText = 25
	oidLSN  = 3220
	oidTime = 1184
)

// timeFormat is how times are printed.
const timeFormat = "2006-01-02 15:04:05.999999-07"

var oids = map[string]uint32{
	"bool": oidBool, "bigint": oidInt8, "int8": oidInt8, "int": oidInt4, "integer": oidInt4, "text": oidText,
	"pg_lsn": oidLSN, "timestamptz": oidTime,
}

type assignment struct {
	column string
	value  expr
}

// statement is one that was parsed, with the values of its parameters.
type statement struct {
	kind       string // select, insert, update
	table      string
	alias      string
	columns    []string
	values     []expr
	given      expr // of INSERT … SELECT: whether there is a row
	set        []assignment
	where      expr
	conflict   string // "", nothing, update
	returns    []expr
	parameters []uint32
	arguments  []*string
	formats    []int16                              // of the results
	do         func(*scope) (tag string, err error) // instead of all that
}

type column struct {
	name   string // of the outbox's columns; the others are known by their place
	oid    uint32
	format int16
}

func (c column) encode(v *string) []byte {
	if v == nil {
		return nil
	}
	if c.format == 1 {
		n, _ := strconv.ParseInt(*v, 10, 64)
		switch c.oid {
		case oidTime:
			at, _ := time.Parse(timeFormat, *v)
			return binary.BigEndian.AppendUint64(nil, uint64(at.Sub(postgresEpoch).Microseconds()))
		case oidInt8:
			return binary.BigEndian.AppendUint64(nil, uint64(n))
		case oidInt4:
			return binary.BigEndian.AppendUint32(nil, uint32(n))
		case oidBool:
			if *v == "t" {
				return []byte{1}
			}
			return []byte{0}
		}
	}
	return []byte(*v)
}

func (st *statement) outputs() []column {
	out := make([]column, len(st.returns))
	for i, e := range st.returns {
		out[i].oid = e.oid()
		switch {
		case len(st.formats) == 1:
			out[i].format = st.formats[0]
		case i < len(st.formats):
			out[i].format = st.formats[i]
		}
		if out[i].oid == oidText || out[i].oid == oidLSN {
			out[i].format = 0
		}
	}
	return out
}

func (st *statement) bind(m *pgproto3.Bind) {
	st.arguments = nil
	for i, v := range m.Parameters {
		format := int16(0)
		switch {
		case len(m.ParameterFormatCodes) == 1:
			format = m.ParameterFormatCodes[0]
		case i < len(m.ParameterFormatCodes):
			format = m.ParameterFormatCodes[i]
		}
		st.arguments = append(st.arguments, argument(v, format, st.parameters[i]))
	}
	st.formats = append([]int16(nil), m.ResultFormatCodes...)
}

func argument(v []byte, format int16, oid uint32) *string {
	if v == nil {
		return nil
	}
	text := string(v)
	if format == 1 {
		switch {
		case oid == oidInt4 && len(v) == 4:
			text = strconv.Itoa(int(int32(binary.BigEndian.Uint32(v))))
		case oid == oidInt8 && len(v) == 8:
			text = strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10)
		case oid == oidTime && len(v) == 8:
			at := time.Duration(int64(binary.BigEndian.Uint64(v))) * time.Microsecond
			text = postgresEpoch.Add(at).Format(timeFormat)
		case oid == oidBool && len(v) == 1:
			text = map[byte]string{0: "f", 1: "t"}[v[0]]
		}
	}
	return &text
}

var (
	tokens = regexp.MustCompile(`'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\d+|[A-Za-z_][A-Za-z_0-9]*|\d+|::|<>|<=|>=|\|\||` +
		`[-+*/=<>(),.;\[\]]`)
	parameterTypes = regexp.MustCompile(`\$(\d+)::(\w+)`)
	spaces         = regexp.MustCompile(`\s+`)
	operators      = regexp.MustCompile(`OPERATOR\(pg_catalog\.([^)]+)\)`)
)

type parser struct {
	sql    string
	tokens [][]int
	at     int
}

// parsed is parse with a memory: each connection sends the same texts.
func (s *Server) parsed(sql string) (st *statement, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, is := s.known[sql]
	if !is {
		if st, err = parse(sql); err == nil {
			s.known[sql] = st
		}
	}
	return st, err
}

func parse(sql string) (st *statement, err error) {
	if st = gapsStatement(sql); st != nil {
		return st, nil
	}
	if strings.Contains(sql, "pg_stat_replication") { // what the relay asks about standbys is not evaluated but known
		st = &statement{kind: "select", returns: []expr{known(oidText, (*scope).lookAtStandbys)}}
	} else if st = polledFacts(sql); st == nil {
		sql = operators.ReplaceAllString(sql, "$1")
		p := &parser{sql: sql, tokens: tokens.FindAllStringIndex(sql, -1)}
		st, err = p.statement()
	}
	if err != nil {
		return nil, refuse("42601", fmt.Sprintf("%v, in: %s", err, spaces.ReplaceAllString(sql, " ")))
	}
	for _, m := range parameterTypes.FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(m[1])
		for len(st.parameters) < n {
			st.parameters = append(st.parameters, oidText)
		}
		if oid, ok := oids[m[2]]; ok {
			st.parameters[n-1] = oid
		}
	}
	return st, nil
}

func (p *parser) peek() string {
	if p.at >= len(p.tokens) {
		return ""
	}
	return p.sql[p.tokens[p.at][0]:p.tokens[p.at][1]]
}

func (p *parser) next() string {
	t := p.peek()
	p.at++
	return t
}

// acceptWords consumes the words where they come next.
func (p *parser) acceptWords(words ...string) bool {
	for i, w := range words {
		if p.at+i >= len(p.tokens) {
			return false
		}
		t := p.tokens[p.at+i]
		if !strings.EqualFold(p.sql[t[0]:t[1]], w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

func (p *parser) want(words ...string) error {
	if !p.acceptWords(words...) {
		return fmt.Errorf("%q where %q is due", p.peek(), strings.Join(words, " "))
	}
	return nil
}

// name is a table's or column's, without its schema.
func (p *parser) name() string {
	name := strings.Trim(p.next(), `"`)
	for p.acceptWords(".") {
		name = strings.Trim(p.next(), `"`)
	}
	return name
}

func (p *parser) list(one func() error) error {
	for {
		if err := one(); err != nil {
			return err
		}
		if !p.acceptWords(",") {
			return nil
		}
	}
}

func (p *parser) statement() (st *statement, err error) {
	st = &statement{}
	switch {
	case p.acceptWords("SELECT"):
		err = p.selects(st)
	case p.acceptWords("INSERT", "INTO"):
		err = p.insert(st)
	case p.acceptWords("UPDATE"):
		err = p.update(st)
	default:
		err = fmt.Errorf("a statement that begins with %q is not known", p.peek())
	}
	if err == nil && p.acceptWords("RETURNING") {
		err = p.expressions(&st.returns)
	}
	p.acceptWords(";")
	if err == nil && p.peek() != "" && p.peek() != ")" {
		err = fmt.Errorf("%q at the end", p.peek())
	}
	return st, err
}

func (p *parser) expressions(into *[]expr) error {
	return p.list(func() error {
		e, err := p.expression()
		*into = append(*into, e)
		return err
	})
}

func (p *parser) selects(st *statement) (err error) {
	st.kind = "select"
	if err = p.expressions(&st.returns); err != nil || !p.acceptWords("FROM") {
		return err
	}
	st.table = p.name()
	if t := p.peek(); t != "" && t != ")" && t != ";" && !strings.EqualFold(t, "WHERE") {
		st.alias = p.next()
	}
	return p.condition(st)
}

func (p *parser) condition(st *statement) (err error) {
	if p.acceptWords("WHERE") {
		st.where, err = p.expression()
	}
	return err
}

func (p *parser) insert(st *statement) error {
	st.kind, st.table = "insert", p.name()
	if err := p.want("("); err != nil {
		return err
	}
	_ = p.list(func() error { st.columns = append(st.columns, p.name()); return nil })
	if err := p.want(")"); err != nil {
		return err
	}
	if err := p.inserted(st); err != nil || !p.acceptWords("ON", "CONFLICT") {
		return err
	}
	if err := p.want("("); err != nil {
		return err
	}
	p.name()
	if err := p.want(")", "DO"); err != nil {
		return err
	}
	if p.acceptWords("NOTHING") {
		st.conflict = "nothing"
		return nil
	}
	st.conflict = "update"
	if err := p.want("UPDATE"); err != nil {
		return err
	}
	return p.assignments(st)
}

func (p *parser) inserted(st *statement) (err error) {
	if p.acceptWords("VALUES", "(") {
		if err = p.expressions(&st.values); err == nil {
			err = p.want(")")
		}
		return err
	}
	if err = p.want("SELECT"); err == nil {
		err = p.expressions(&st.values)
	}
	if err == nil && p.acceptWords("WHERE") {
		st.given, err = p.expression()
	}
	return err
}

func (p *parser) update(st *statement) error {
	st.kind, st.table = "update", p.name()
	if t := p.peek(); !strings.EqualFold(t, "SET") {
		st.alias = p.next()
	}
	return p.assignments(st)
}

func (p *parser) assignments(st *statement) error {
	if err := p.want("SET"); err != nil {
		return err
	}
	err := p.list(func() error {
		a := assignment{column: p.name()}
		if err := p.want("="); err != nil {
			return err
		}
		var err error
		a.value, err = p.expression()
		st.set = append(st.set, a)
		return err
	})
	if err != nil {
		return err
	}
	return p.condition(st)
}
