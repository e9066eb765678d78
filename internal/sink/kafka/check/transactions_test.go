package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

func TestCheckTransactions(t *testing.T) {
	const id, positions = "cdc-outbox.7.slot", "cdc-outbox.positions"
	acl := func(resource kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{
			Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op,
			Allow: true,
		}
	}
	rights := []kfake.ACL{
		acl(kmsg.ACLResourceTypeTransactionalId, id, kmsg.ACLOperationWrite),
		acl(kmsg.ACLResourceTypeTransactionalId, id, kmsg.ACLOperationDescribe),
	}
	group := acl(kmsg.ACLResourceTypeGroup, id, kmsg.ACLOperationRead)
	read := acl(kmsg.ACLResourceTypeTopic, positions, kmsg.ACLOperationRead)
	describe := acl(kmsg.ACLResourceTypeTopic, positions, kmsg.ACLOperationDescribe)
	create := acl(kmsg.ACLResourceTypeTopic, positions, kmsg.ACLOperationCreate)
	for name, test := range map[string]struct {
		allowed []kfake.ACL
		exists  bool
		bad     string // subject of the failing finding; empty for none
	}{
		"all":                      {append(rights[:2:2], group, read, describe), true, ""},
		"all, and to create":       {append(rights[:2:2], group, read, describe, create), false, ""},
		"no right to the id":       {[]kfake.ACL{group, read, describe}, true, "transactional id " + id},
		"no right to the group":    {append(rights[:2:2], read, describe), true, "group " + id},
		"no right to read":         {append(rights[:2:2], group, describe), true, "topic " + positions},
		"none to the topic at all": {append(rights[:2:2], group), true, "topic " + positions},
		"none to create it":        {append(rights[:2:2], group, read, describe), false, "topic " + positions},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeCluster(t, kfake.EnableSASL(), kfake.EnableACLs(),
				kfake.User("PLAIN", "connector", "pw", test.allowed...))
			if test.exists {
				require.NoError(t, c.CreateTopic(positions, 1, nil))
			}
			cfg := Options{Cluster: wire.Cluster{
				Brokers: c.ListenAddrs(), Transactional: true,
				SASL: &wire.SASL{
					Mechanism: "PLAIN", Username: "connector",
					Password: func() (string, error) { return "pw", nil },
				},
			}}
			findings, err := Transactions(t.Context(), cfg, id)
			require.NoError(t, err)
			for subject, level := range levels(findings) {
				want := preflight.OK
				if subject == test.bad {
					want = preflight.Fail
				}
				require.Equal(t, want, level, "%+v", findings)
			}
			if test.bad != "" {
				require.Contains(t, levels(findings), test.bad)
			}
			for _, f := range findings {
				require.Equal(t, f.Level == preflight.OK, f.Remedy == "")
				if f.Level == preflight.Fail {
					require.Contains(t, f.ToDo().String(),
						"kafka-acls.sh --bootstrap-server "+cfg.Brokers[0]+" --command-config client.properties --add "+
							"--allow-principal User:connector --operation ")
				}
			}
		})
	}
}

// Without the right to the transactional id the relay runs, and the check names the command for it.
func TestCheckFencing(t *testing.T) {
	const id = "cdc-outbox.7.slot"
	for name, allowed := range map[string]bool{"allowed": true, "not allowed": false} {
		t.Run(name, func(t *testing.T) {
			var acls []kfake.ACL
			for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe} {
				acls = append(acls, kfake.ACL{
					Resource: kmsg.ACLResourceTypeTransactionalId, Name: id,
					Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: allowed,
				})
			}
			c := fakeCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "connector", "pw", acls...))
			findings, err := Fencing(t.Context(), Options{Cluster: wire.Cluster{
				Brokers: c.ListenAddrs(),
				SASL: &wire.SASL{
					Mechanism: "PLAIN", Username: "connector",
					Password: func() (string, error) { return "pw", nil },
				},
			}}, id)
			require.NoError(t, err)
			require.Len(t, findings, 1)
			if allowed {
				require.Equal(t, preflight.OK, findings[0].Level, "%+v", findings)
				return
			}
			require.Equal(t, preflight.Warn, findings[0].Level, "%+v", findings)
			require.Contains(t, findings[0].Commands[0], "--add --allow-principal User:connector --operation Write "+
				"--operation Describe --transactional-id "+id)
		})
	}
}
