#!/usr/bin/ruby
# frozen_string_literal: true

# Checks the broker at $AMQP_URL with bunny. Usage: checks.rb [WORD…]   runs the checks whose name contains one
# of the words (default: all). VERBOSE=1 prints the passed ones too.

require_relative 'harness'
require_relative 'checks_topology'
require_relative 'checks_messages'
require_relative 'checks_arguments'

Thread.report_on_exception = false # provoked errors are not news
exit(Harness.run(ARGV))
