// Package topics finds the Kafka topics that the rows in the outbox tables lead to.
package topics

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// sampledRows is how many rows of each outbox are read for the topics they lead to. Without an order, so that the
	// sample costs the same on a table of any size.
	sampledRows = 10_000
	// sampledTopics bounds the report; a template with the aggregate id names a topic per aggregate.
	sampledTopics = 100
	// sampleTimeout bounds the sample as a whole.
	sampleTimeout = 10 * time.Second
)

var placeholder = regexp.MustCompile(`\$\{[^}]+\}`)

// Outbox decides the topics of rows: it has the tables, and how a row's topic is named.
type Outbox struct {
	DSN      string
	Tables   []identifier.Table
	Template string                   // constant, or with placeholders such as ${aggregate_type} and ${column:NAME}
	Columns  map[string]string        // the column that a placeholder stands for
	Rename   func(name string) string // changes the name afterwards; nil: nothing does
	Derived  map[string]string        // SQL of columns that the tables do not have, by name
}

// Sample returns the topics to which the rows in the tables lead: the topic itself if the template is a constant,
// otherwise the topics of a sample, none if the tables are empty. all is false if a table could not be read. Sample
// leaves out names that Kafka does not take.
func (o *Outbox) Sample(ctx context.Context) (names []string, all bool) {
	if !placeholder.MatchString(o.Template) {
		return []string{o.Template}, true
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	conn, err := connect(ctx, o.DSN)
	if err != nil {
		return []string{}, false
	}
	defer postgres.CloseConn(conn)
	names, all = []string{}, true
	for _, t := range o.Tables {
		found, err := o.ask(ctx, conn, o.query(t, true))
		if err != nil {
			all = false
			continue
		}
		for _, name := range found {
			if len(names) < sampledTopics && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, all
}

// All returns every topic to which the rows in the tables lead. flag is the flag that names the topics instead.
func (o *Outbox) All(ctx context.Context, flag string) ([]string, error) {
	rest := placeholder.ReplaceAllString(o.Template, "")
	if slices.Contains([]byte(rest), '$') {
		return nil, fault.Usage("router.topic does not determine the topics", "name them with "+flag)
	}
	if rest == o.Template {
		return []string{o.Template}, nil
	}
	conn, err := connect(ctx, o.DSN)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Retry, Object: "postgres", Err: errors.New("cannot connect")}
	}
	defer postgres.CloseConn(conn)
	var names []string
	for _, t := range o.Tables {
		found, err := o.ask(ctx, conn, o.query(t, false))
		if err != nil {
			return nil, &fault.Error{Kind: fault.Operator, Object: "table " + t.String(), Err: err}
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// connect opens a connection for names of which a table may have any number.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	return postgres.Open(ctx, dsn, postgres.ConnectOptions{
		Application: "cdc-outbox admin", Unprepared: true, Rows: true,
	})
}

// ask returns the topics of a query's names, without names that Kafka does not take.
func (o *Outbox) ask(ctx context.Context, conn *pgx.Conn, sql string) ([]string, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	if o.Rename != nil {
		for i, name := range names {
			names[i] = o.Rename(name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return router.CheckTopic(name) != nil }), nil
}

// query has the template filled in by the server, from a sample of the rows or from all of them.
func (o *Outbox) query(t identifier.Table, sample bool) string {
	var name []string
	notNull := []string{"true"}
	rest := o.Template
	for _, at := range placeholder.FindAllString(rest, -1) {
		before, after, _ := strings.Cut(rest, at)
		rest = after
		if fixed, ok := map[string]string{"${table}": t.Name, "${schema}": t.Schema}[at]; ok {
			name = append(name, identifier.QuoteLiteral(before+fixed))
			continue
		}
		source, named := strings.CutPrefix(strings.TrimSuffix(at, "}"), "${column:")
		if !named {
			source = o.Columns[at]
		}
		text := identifier.Quote(source) + "::text"
		if sql, ok := o.Derived[source]; ok {
			text = sql
		}
		name = append(name, identifier.QuoteLiteral(before), text)
		notNull = append(notNull, text+" <> ''")
	}
	name = append(name, identifier.QuoteLiteral(rest))
	if !sample {
		return fmt.Sprintf(
			"SELECT DISTINCT %s FROM %s WHERE %s", strings.Join(name, " || "), t.SQL(), strings.Join(notNull, " AND "),
		)
	}
	return fmt.Sprintf("SELECT DISTINCT %s FROM (SELECT * FROM %s LIMIT %d) AS sample WHERE %s LIMIT %d",
		strings.Join(name, " || "), t.SQL(), sampledRows, strings.Join(notNull, " AND "), sampledTopics)
}
