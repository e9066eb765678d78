package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// sampledRows is how many rows of each outbox are looked at for the topics they lead to. Without an order, so that
	// the look costs the same on a table of any size.
	sampledRows = 10_000
	// sampledTopics bounds the report; a template with the aggregate id names a topic per aggregate.
	sampledTopics = 100
)

var placeholder = regexp.MustCompile(`\$\{[^}]+\}`)

// topicsInUse returns the topics to which the rows in the outbox tables lead: where the template is a constant the
// topic itself, else those of a sample, none where the tables are empty. all is false where one of them could not be read; why, the look at
// Postgres reports already. Illegal names are left out; run reports them by row.
func topicsInUse(ctx context.Context, dsn string, c *config.Loaded, tables []identifier.Table) (topics []string, all bool) {
	topicOf := func(name string) string { return name }
	template := c.Router.Topic
	if c.Router.Preset == config.PresetDebezium {
		template, topicOf = "${aggregate_type}", router.DebeziumTopics(c.Router.Debezium.TopicRegex, c.Router.Debezium.TopicReplacement)
	}
	if !placeholder.MatchString(template) {
		return []string{template}, true
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return []string{}, false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	found := map[string]bool{}
	all = true
	for _, t := range tables {
		rows, err := conn.Query(ctx, topicQuery(c.Router.Roles(), template, t, true))
		if err != nil {
			all = false
			continue
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			all = false
			continue
		}
		for _, name := range names {
			name = topicOf(name)
			if router.CheckTopic(name) == nil && len(found) < sampledTopics {
				found[name] = true
			}
		}
	}
	return slices.AppendSeq([]string{}, maps.Keys(found)), all
}

// topicQuery has the template filled in by the server, from a sample of the rows or from all of them.
func topicQuery(c config.Columns, template string, t identifier.Table, sample bool) string {
	column := map[string]string{
		"${aggregate_type}": c.AggregateType,
		"${aggregate_id}":   c.AggregateID,
		"${type}":           c.Type,
	}
	var name, notNull []string
	rest := template
	for _, at := range placeholder.FindAllString(rest, -1) {
		before, after, _ := strings.Cut(rest, at)
		source, named := strings.CutPrefix(strings.TrimSuffix(at, "}"), "${column:")
		if !named {
			source = column[at]
		}
		text := identifier.Quote(source) + "::text"
		name = append(name, identifier.QuoteLiteral(before), text)
		notNull = append(notNull, text+" <> ''")
		rest = after
	}
	name = append(name, identifier.QuoteLiteral(rest))
	if !sample {
		return fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %s", strings.Join(name, " || "), t.SQL(), strings.Join(notNull, " AND "))
	}
	return fmt.Sprintf("SELECT DISTINCT %s FROM (SELECT * FROM %s LIMIT %d) AS sample WHERE %s LIMIT %d",
		strings.Join(name, " || "), t.SQL(), sampledRows, strings.Join(notNull, " AND "), sampledTopics)
}

// allTopics returns every topic that the rows in the tables lead to.
func allTopics(ctx context.Context, dsn string, c *config.Loaded, tables []identifier.Table, flag string) ([]string, error) {
	topicOf, template := func(name string) string { return name }, c.Router.Topic
	if c.Router.Preset == config.PresetDebezium {
		template, topicOf = "${aggregate_type}", router.DebeziumTopics(c.Router.Debezium.TopicRegex, c.Router.Debezium.TopicReplacement)
	}
	rest := placeholder.ReplaceAllString(template, "")
	if slices.Contains([]byte(rest), '$') {
		return nil, fault.Usage("the topics cannot be told from router.topic", "name them with "+flag)
	}
	if rest == template {
		return []string{template}, nil
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Retry, Object: "postgres", Err: errors.New("cannot connect")}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var topics []string
	for _, t := range tables {
		rows, err := conn.Query(ctx, topicQuery(c.Router.Roles(), template, t, false))
		if err != nil {
			return nil, err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, &fault.Error{Kind: fault.Operator, Object: "table " + t.String(), Err: err}
		}
		for _, name := range names {
			if name = topicOf(name); router.CheckTopic(name) == nil && !slices.Contains(topics, name) {
				topics = append(topics, name)
			}
		}
	}
	return topics, nil
}
