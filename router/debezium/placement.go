package debezium

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// placement is an entry of table.fields.additional.placement.
type placement struct {
	column, where, alias string
}

const (
	placedHeader    = "header"
	placedEnvelope  = "envelope"
	placedPartition = "partition"
)

const contextPrefix = "__debezium.context."

// parsePlacements reads the entries. It refuses an entry that would make every row fail, and a header whose name is
// reserved for our own headers.
func (d *Config) parsePlacements() ([]placement, error) {
	var all []placement
	fields := map[string]bool{"payload": true}
	for _, entry := range d.Additional {
		parts := strings.Split(entry, ":")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) != 2 && len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%q is neither column:placement nor column:placement:alias", entry)
		}
		p := placement{column: parts[0], where: strings.ToLower(parts[1]), alias: parts[len(parts)-1]}
		if len(parts) == 2 {
			p.alias = p.column
		}
		switch p.where {
		case placedHeader:
			if d.ContextHeaders && strings.HasPrefix(p.alias, contextPrefix) ||
				d.PositionHeader && p.alias == router.HeaderPosition {
				return nil, fmt.Errorf("the header name %q is reserved", p.alias)
			}
			if err := router.CheckHeaderName(p.alias); err != nil {
				return nil, err
			}
		case placedEnvelope:
			if fields[p.alias] {
				return nil, fmt.Errorf("the envelope would have two fields %q", p.alias)
			}
			fields[p.alias] = true
		case placedPartition:
		default:
			return nil, fmt.Errorf("%q is not a placement; there are header, envelope and partition", p.where)
		}
		all = append(all, p)
	}
	return all, nil
}

func (d *Router) placeAdditional(p *plan) {
	for _, at := range d.placements {
		a := additionalColumn{column: d.column(p, at.column), placement: at}
		if a.convert == nil {
			if !d.cfg.IgnoreMissing {
				p.miss("additional", at.column, "Debezium converts no values of its type")
			}
			continue
		}
		switch at.where {
		case placedHeader:
			a.out = newConverter(d.cfg.HeaderConverter, a.schema)
		case placedPartition:
			p.mustBe(a.column, connect.Int32, "additional", "integer")
		}
		p.additional = append(p.additional, a)
	}
}
