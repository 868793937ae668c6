package churn

import (
	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// channelWork opens channels and closes them.
func channelWork() work {
	return work{
		name:    "channel-churn",
		summary: "open channels and close them",
		details: "An operation opens a channel and closes it. Each unanswered one has a channel number\n" +
			"of its own, which is used again when its close was confirmed.",
		unit: "channels opened and closed", kinds: []string{""}, windows: "1,100",
		connect: func(run *rowRun) error {
			return connectCallers(run, func(s *session.Session, _ int) (client.Operation, error) {
				if most := int(s.Channels) - session.ClientChannel; run.row.Window > most {
					return client.Operation{}, cli.Usagef("the broker allows %d channels on a connection: --windows is at most %d", s.Channels, most)
				}
				return channelOperation(), nil
			})
		},
	}
}

func channelOperation() client.Operation {
	open := &amqp.ChannelOpen{}
	shut := &amqp.ChannelClose{ReplyCode: amqp.CodeSuccess}
	return client.Operation{
		Replies: []uint32{amqp.ChannelOpenOkID, amqp.ChannelCloseOkID}, OwnChannels: true,
		Append: func(dst []byte, channel uint16, _ uint64, call int) []byte {
			if call == 1 {
				return amqp.AppendMethodFrame(dst, channel, shut)
			}
			return amqp.AppendMethodFrame(dst, channel, open)
		},
	}
}
