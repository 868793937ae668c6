/**
 * Checks the broker at $AMQP_URL with the Java client. Arguments: words; the checks whose name contains one
 * of them run (default: all). VERBOSE=1 prints the passed ones too.
 */
final class Checks {
    private Checks() {}

    public static void main(String[] words) throws Exception {
        ConnectionChecks.register();
        TopologyChecks.register();
        PublishChecks.register();
        ConsumeChecks.register();
        RecoveryChecks.register();
        ArgumentChecks.register();
        System.exit(Harness.run(words));
    }
}
