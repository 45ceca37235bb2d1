import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.io.ObjectOutputStream;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Runs the Debezium engine from a binlog position until it has delivered a number of rows, and writes one line per
 * batch: rows so far, rows in the batch, nanoseconds, CPU nanoseconds of the process. Rows are Connect records (the
 * cheapest format); they are counted and dropped.
 *
 * Arguments: FILE (of settings: folder, host, port, user, password, database, tables, file, position, gtids, rows).
 */
public final class EngineRun {
    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final Properties settings;
    private final Path folder;
    private final long wanted;
    private final CountDownLatch enough = new CountDownLatch(1);
    private final PrintWriter marks;
    private long rows;

    private EngineRun(Properties settings) throws Exception {
        this.settings = settings;
        folder = Path.of(settings.getProperty("folder"));
        wanted = Long.parseLong(settings.getProperty("rows"));
        marks = new PrintWriter(folder.resolve("marks.csv").toFile());
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var in = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(in);
        }
        new EngineRun(settings).run();
    }

    private void run() throws Exception {
        writeOffset();
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class)
                .using(engineSettings())
                .using((success, message, error) -> {
                    if (enough.getCount() > 0) {
                        System.err.println("the engine stopped: " + message + " " + error);
                        Runtime.getRuntime().halt(3);
                    }
                })
                .notifying(this::take)
                .build();
        var executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        if (!enough.await(600, TimeUnit.SECONDS)) {
            System.err.println("no end after 600 s: " + rows + " of " + wanted + " rows");
            Runtime.getRuntime().halt(4);
        }
        marks.close();
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) {
                System.out.println(line.replaceAll("\\D", ""));
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void take(
            List<ChangeEvent<SourceRecord, SourceRecord>> events,
            DebeziumEngine.RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer)
            throws InterruptedException {
        int batch = 0;
        for (var event : events) {
            if (event.value() != null && event.value().value() != null) {
                batch++;
            }
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        rows += batch;
        if (batch > 0 && enough.getCount() > 0) {
            marks.printf("%d,%d,%d,%d%n", rows, batch, System.nanoTime(), SYSTEM.getProcessCpuTime());
            if (rows >= wanted) {
                enough.countDown();
            }
        }
    }

    /** Debezium's offset file is a serialized map from partition to offset, both as JSON bytes. */
    private void writeOffset() throws Exception {
        String offset = String.format(
                "{\"ts_sec\":0,\"file\":\"%s\",\"pos\":%s,\"gtids\":\"%s\"}",
                settings.getProperty("file"), settings.getProperty("position"), settings.getProperty("gtids"));
        Map<byte[], byte[]> offsets = new HashMap<>();
        offsets.put(bytes("[\"bench\",{\"server\":\"bench\"}]"), bytes(offset));
        try (var out = new ObjectOutputStream(Files.newOutputStream(folder.resolve("offsets")))) {
            out.writeObject(offsets);
        }
    }

    private Properties engineSettings() {
        Properties engine = new Properties();
        engine.setProperty("name", "bench");
        engine.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
        engine.setProperty("topic.prefix", "bench");
        engine.setProperty("database.hostname", settings.getProperty("host"));
        engine.setProperty("database.port", settings.getProperty("port"));
        engine.setProperty("database.user", settings.getProperty("user"));
        engine.setProperty("database.password", settings.getProperty("password"));
        engine.setProperty("database.server.id", "990004");
        engine.setProperty("database.ssl.mode", "disabled");
        engine.setProperty("driver.allowPublicKeyRetrieval", "true");
        engine.setProperty("database.include.list", settings.getProperty("database"));
        engine.setProperty("table.include.list", settings.getProperty("tables"));
        engine.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        engine.setProperty("offset.storage.file.filename", folder.resolve("offsets").toString());
        engine.setProperty("offset.flush.interval.ms", "60000");
        engine.setProperty("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory");
        engine.setProperty("schema.history.internal.file.filename", folder.resolve("history").toString());
        engine.setProperty("schema.history.internal.store.only.captured.tables.ddl", "true");
        engine.setProperty("snapshot.mode", "recovery"); // definitions of now, position from the offset file
        engine.setProperty("snapshot.locking.mode", "none");
        engine.setProperty("include.schema.changes", "false");
        engine.setProperty("tombstones.on.delete", "false");
        return engine;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
