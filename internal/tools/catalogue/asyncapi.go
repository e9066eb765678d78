package catalogue

import (
	"fmt"
	"strings"
)

// Document is an AsyncAPI document, version 3.0.0, of which it has what is known
// (https://www.asyncapi.com/docs/reference/specification/v3.0.0).
type Document struct {
	AsyncAPI   string               `json:"asyncapi"`
	Info       info                 `json:"info"`
	Channels   map[string]channel   `json:"channels"`
	Operations map[string]operation `json:"operations"`
}

type info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

type channel struct {
	Address  string             `json:"address"`
	Messages map[string]message `json:"messages"`
}

type message struct {
	Name     string             `json:"name,omitempty"`
	Title    string             `json:"title,omitempty"`
	Summary  string             `json:"summary"`
	Headers  object             `json:"headers"`
	Bindings map[string]binding `json:"bindings,omitempty"`
}

type object struct {
	Type       string              `json:"type"`
	Properties map[string]struct{} `json:"properties,omitempty"`
}

// binding is Kafka's, version 0.5.0.
type binding struct {
	Key                     *object `json:"key,omitempty"`
	SchemaIDLocation        string  `json:"schemaIdLocation,omitempty"`
	SchemaIDPayloadEncoding string  `json:"schemaIdPayloadEncoding,omitempty"`
	BindingVersion          string  `json:"bindingVersion"`
}

type operation struct {
	Action  string    `json:"action"`
	Channel reference `json:"channel"`
}

type reference struct {
	Ref string `json:"$ref"`
}

// AsyncAPI describes the events from the side of the service that writes them. A title names the service.
func (c *Catalogue) AsyncAPI(title, version string, kafka bool) *Document {
	d := &Document{
		AsyncAPI: "3.0.0", Info: info{title, version, c.summary()},
		Channels: map[string]channel{}, Operations: map[string]operation{},
	}
	for i := range c.Events {
		e := &c.Events[i]
		// A topic of Kafka has the characters that a name in a document may have; an address of another broker may not.
		id := identifier(e.Topic, func(id string) bool {
			ch, taken := d.Channels[id]
			return taken && ch.Address != e.Topic
		})
		if d.Channels[id].Messages == nil {
			d.Channels[id] = channel{Address: e.Topic, Messages: map[string]message{}}
			d.Operations["send."+id] = operation{"send", reference{"#/channels/" + id}}
		}
		messages := d.Channels[id].Messages
		name := identifier(e.Type, func(id string) bool { _, taken := messages[id]; return taken })
		messages[name] = e.message(kafka)
	}
	return d
}

func (e *Event) message(kafka bool) message {
	m := message{
		Name: e.Type, Title: e.Type, Summary: fmt.Sprintf("%d rows of %s, the last at %s.", e.Rows, e.Table,
			e.Last.UTC().Format("2006-01-02T15:04:05Z")),
		Headers: object{Type: "object", Properties: map[string]struct{}{}},
	}
	for _, h := range e.Headers {
		m.Headers.Properties[h] = struct{}{}
	}
	if s := e.schema(); e.Schema != 0 {
		m.Summary += " Schema: " + s + "."
	}
	if !kafka {
		return m
	}
	b := binding{BindingVersion: "0.5.0"}
	if e.Keyed {
		b.Key = &object{Type: "string"}
	}
	if e.Schema != 0 {
		b.SchemaIDLocation, b.SchemaIDPayloadEncoding = "payload", "confluent"
	}
	m.Bindings = map[string]binding{"kafka": b}
	return m
}

// identifier is a name in the document for a text: letters, digits, dots, hyphens and underscores, and a number if
// another text has the name.
func identifier(text string, taken func(string) bool) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, text)
	if name == "" {
		name = "event"
	}
	one := name
	for i := 2; taken(one); i++ {
		one = fmt.Sprintf("%s.%d", name, i)
	}
	return one
}
