package setup

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// filterTable has columns of the types that filters compare; nickname alone may be NULL.
const filterTable = `CREATE TABLE outbox (id bigint PRIMARY KEY, aggregate_type text NOT NULL,
	aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL DEFAULT '{}', headers jsonb,
	created_at timestamptz NOT NULL DEFAULT now(), nickname text, region varchar(10) NOT NULL DEFAULT 'eu',
	shard int NOT NULL DEFAULT 0, urgent bool NOT NULL DEFAULT false, token uuid NOT NULL DEFAULT gen_random_uuid(),
	amount numeric NOT NULL DEFAULT 1)`

func filterColumns() postgres.OutboxTable {
	t := planState().Tables[0]
	for name, kind := range map[string]string{
		"id": "bigint", "aggregate_type": "text", "aggregate_id": "text", "payload": "jsonb", "nickname": "text",
		"region": "character varying", "shard": "integer", "urgent": "boolean", "token": "uuid", "amount": "numeric",
	} {
		t.Columns = append(t.Columns, postgres.TableColumn{Name: name, Type: kind, NotNull: name != "nickname"})
	}
	return t
}

type filterCase struct {
	filters                []string // as Postgres prints them
	missing, twice, doubts string
}

// filterCases are sets of filters, and what is known of them without a row.
func filterCases() map[string]filterCase {
	hash2 := `((hashtext(aggregate_id) %% 2) = %s)`
	return map[string]filterCase{
		"mask": {filters: []string{
			`((hashtext(aggregate_id) & 1) = 0)`, `((hashtext(aggregate_id) & 1) = 1)`,
		}},
		"mask of four": {filters: []string{
			`((hashtext(aggregate_id) & 3) = 0)`, `((hashtext(aggregate_id) & 3) = 1)`,
			`((hashtext(aggregate_id) & 3) = ANY (ARRAY[2, 3]))`,
		}},
		"mask without a value": {missing: "= 2", filters: []string{
			`((hashtext(aggregate_id) & 3) = 0)`, `((hashtext(aggregate_id) & 3) = 1)`,
			`((hashtext(aggregate_id) & 3) = 3)`,
		}},
		"mask twice": {twice: "= 1", filters: []string{
			`((hashtext(aggregate_id) & 1) = 0)`, `((hashtext(aggregate_id) & 1) = 1)`,
			`((hashtext(aggregate_id) & 1) = 1)`,
		}},
		"remainder of a hash": {missing: "= -1", filters: []string{
			fmt.Sprintf(hash2, "0"), fmt.Sprintf(hash2, "1"),
		}},
		"remainder of a hash, all": {filters: []string{
			fmt.Sprintf(hash2, "0"),
			`(((hashtext(aggregate_id) % 2) = 1) OR ((hashtext(aggregate_id) % 2) = '-1'::integer))`,
		}},
		"remainder of a hash, not": {filters: []string{
			fmt.Sprintf(hash2, "0"), `((hashtext(aggregate_id) % 2) <> 0)`,
		}},
		"abs of the remainder": {filters: []string{
			`(abs((hashtext(aggregate_id) % 2)) = 0)`, `(abs((hashtext(aggregate_id) % 2)) = 1)`,
		}},
		"remainder of abs": {doubts: "abs() of the smallest", filters: []string{
			`((abs(hashtext(aggregate_id)) % 2) = 0)`, `((abs(hashtext(aggregate_id)) % 2) = 1)`,
		}},
		"remainder of abs of a wider type": {filters: []string{
			`((abs((hashtext(aggregate_id))::bigint) % (2)::bigint) = 0)`,
			`((abs((hashtext(aggregate_id))::bigint) % (2)::bigint) = 1)`,
		}},
		"remainder of a positive hash": {filters: []string{
			`(((hashtext(aggregate_id) & 2147483647) % 2) = 0)`, `(((hashtext(aggregate_id) & 2147483647) % 2) = 1)`,
		}},
		"mod": {doubts: "negative", filters: []string{
			`(mod(id, (2)::bigint) = 0)`, `(mod(id, (2)::bigint) = 1)`,
		}},
		"remainder without a value": {missing: "= -2, -1, 2", filters: []string{
			`((id % (3)::bigint) = 0)`, `((id % (3)::bigint) = 1)`,
		}},
		"remainder of a numeric": {doubts: "no filter is for any other value", filters: []string{
			`((amount % (2)::numeric) = (0)::numeric)`, `((amount % (2)::numeric) = (1)::numeric)`,
		}},
		"equal and not": {filters: []string{
			`((region)::text = 'eu'::text)`, `((region)::text <> 'eu'::text)`,
		}},
		"equal and NOT": {filters: []string{
			`((region)::text = 'eu'::text)`, `(NOT ((region)::text = 'eu'::text))`,
		}},
		"in and not in": {filters: []string{
			`(aggregate_type = ANY (ARRAY['eu'::text, 'us'::text]))`,
			`(aggregate_type <> ALL (ARRAY['eu'::text, 'us'::text]))`,
		}},
		"a quote, and what looks like an operator": {filters: []string{
			`(aggregate_type = 'it''s ) OR ( = '::text)`, `(aggregate_type <> 'it''s ) OR ( = '::text)`,
		}},
		"numbers as text": {twice: "= '01'", doubts: "no filter is for '1' of", filters: []string{
			`(aggregate_type = '01'::text)`, `(aggregate_type <> '1'::text)`,
		}},
		"flag": {filters: []string{`urgent`, `(NOT urgent)`}},
		"listed values": {doubts: "no filter is for any other value", filters: []string{
			`(shard = 0)`, `(shard = 1)`,
		}},
		"nullable": {doubts: "column nickname may be NULL", filters: []string{
			`(nickname = 'a'::text)`, `(nickname <> 'a'::text)`,
		}},
		"coalesce": {doubts: "not understood", filters: []string{
			`(COALESCE(nickname, ''::text) = 'a'::text)`, `(COALESCE(nickname, ''::text) <> 'a'::text)`,
		}},
		"json": {doubts: "payload may contain NULL", filters: []string{
			`((payload ->> 'a'::text) = 'a'::text)`, `((payload ->> 'a'::text) <> 'a'::text)`,
		}},
		"ranges": {doubts: "not understood", filters: []string{`(id < 10)`, `(id >= 10)`}},
		"different expressions": {doubts: "different expressions", filters: []string{
			`((hashtext(aggregate_id) & 1) = 0)`, `((hashtext(aggregate_type) & 1) = 1)`,
		}},
		"whole, and one more": {twice: "p2 publishes too", filters: []string{
			`((hashtext(aggregate_id) & 1) = 0)`, `((hashtext(aggregate_id) & 1) = 1)`, `(id < 10)`,
		}},
	}
}

func TestJudgeFilters(t *testing.T) {
	for name, c := range filterCases() {
		t.Run(name, func(t *testing.T) {
			v := judgeFilters(setOf(c.filters), filterColumns())
			for _, x := range []struct{ want, got string }{
				{c.missing, v.Missing}, {c.twice, v.Twice}, {c.doubts, v.Doubt},
			} {
				if x.want == "" {
					require.Empty(t, x.got)
				} else {
					require.Contains(t, x.got, x.want)
				}
			}
		})
	}
}

func setOf(filters []string) filterSet {
	set := filterSet{Slots: -1}
	for i, f := range filters {
		set.Shares = append(set.Shares, filterShare{fmt.Sprintf("p%d", i), f})
	}
	return set
}

func TestCheckFilters(t *testing.T) {
	mask := []string{`((hashtext(aggregate_id) & 1) = 0)`, `((hashtext(aggregate_id) & 1) = 1)`}
	ranges := []string{`(id < 10)`, `(id >= 10)`}
	for name, c := range map[string]struct {
		filters []string
		sample  filterSample
		slots   int
		level   preflight.Level
		found   string
	}{
		"proven": {
			mask,
			filterSample{},
			2, preflight.OK,
			"Whole: publications p0, p1 share the table, each row goes to exactly one.",
		},
		"no reader":       {mask, filterSample{}, 1, preflight.OK, "knows 1 slots of this database for these 2"},
		"gap":             {mask[:1], filterSample{}, -1, preflight.Fail, "= 1"},
		"sampled":         {ranges, filterSample{Rows: 7}, -1, preflight.OK, "on 7 sampled rows"},
		"sampled gap":     {ranges, filterSample{Rows: 7, None: 2, NoneExample: "x"}, -1, preflight.Fail, "id x"},
		"sampled overlap": {ranges, filterSample{Rows: 7, Many: 2, Example: "x"}, -1, preflight.Warn, "id x"},
		"empty":           {ranges, filterSample{}, -1, preflight.Warn, "has no rows"},
		"no sample":       {ranges, filterSample{Err: "it is late"}, -1, preflight.Warn, "it is late"},
	} {
		t.Run(name, func(t *testing.T) {
			set := setOf(c.filters)
			set.Sample, set.Slots = c.sample, c.slots
			f := checkFilters(planConfig(), set, filterColumns())
			require.Len(t, f, 1)
			require.Equal(t, c.level, f[0].Level)
			require.Contains(t, f[0].Found, c.found)
			require.Equal(t, codeFilters, f[0].Code)
			if c.level != preflight.OK {
				require.NotEmpty(t, f[0].Why)
				require.NotEmpty(t, f[0].Remedy)
			}
		})
	}
}
