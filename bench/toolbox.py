"""Five hundred plausible tools in forty domains, and tasks whose best tool is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ALL = 500
VERBS: Mapping[str, tuple[str, str]] = {
    "list": ("list all {plural}", "limit page"),
    "get": ("show one {noun} with its details", "id"),
    "create": ("make a new {noun}", "title text"),
    "update": ("change a {noun}", "id changes"),
    "delete": ("remove a {noun} for good", "id"),
    "search": ("find {plural} by words", "query limit"),
    "export": ("write {plural} into a file", "path format"),
    "import": ("read {plural} from a file", "path"),
    "send": ("send a {noun} to somebody", "id to"),
    "share": ("let somebody else see a {noun}", "id with"),
    "move": ("put a {noun} somewhere else", "id to"),
    "close": ("close a {noun} that is done", "id reason"),
    "start": ("start a {noun}", "id"),
    "stop": ("stop a {noun} that is running", "id"),
    "convert": ("turn a {noun} into another format", "path format"),
    "compare": ("tell how two {plural} differ", "first second"),
}
"""What a tool of that verb says, and its arguments; those after the first are optional."""

DOMAINS = """\
calendar: event events, a meeting or appointment with time and guests: list create update delete search
calendar: room rooms, a meeting room that can be booked: list get search
calendar: reminder reminders, a note that comes up at a time: list create delete
mail: message messages, an e-mail with subject, sender and body: list get send search move delete
mail: attachment attachments, a file that came with an e-mail: list get export
mail: filter filters, a rule that sorts incoming mail: list create delete
contacts: person persons, a contact with phone number and address: list get create update search
contacts: group groups, contacts that belong together: list create share
chat: channel channels, a room where a team talks: list create close
chat: post posts, what somebody wrote in a channel: list send search delete
chat: reaction reactions, an emoji on a post: list create
github: issue issues, a bug report or feature request of a repository: list get create update close search
github: pull-request pull-requests, proposed code with its review: list get create compare close
github: release releases, a tagged version with its notes: list get create
gitlab: pipeline pipelines, a run of continuous integration: list get start stop
gitlab: runner runners, a machine that carries out jobs: list get delete
gitlab: merge-request merge-requests, a branch to be merged: list create close
jira: ticket tickets, a task of a team with its assignee and state: list get create update move search
jira: sprint sprints, two weeks of planned work: list create start close
docker: container containers, a program in a box of its own: list get start stop delete
docker: image images, what containers are started from: list create delete export
docker: volume volumes, storage that outlives a container: list create delete
kubernetes: pod pods, the smallest thing that runs in a cluster: list get delete
kubernetes: deployment deployments, how many copies of what shall run: list get update start
kubernetes: secret secrets, a password or key for programs: list create delete
cloud: server servers, a virtual machine: list get create start stop delete
cloud: bucket buckets, object storage for files: list create delete share
cloud: bill bills, what was used and what it costs: list get export
dns: record records, an entry of a domain's zone: list create update delete
dns: domain domains, a registered name and when it ends: list get search
postgres: query queries, SQL on a PostgreSQL database: start stop list
postgres: table tables, columns and rows of a schema: list get create export
postgres: backup backups, a dump of the database: list create import
spreadsheet: sheet sheets, a page of cells and formulas: list get create update export import
spreadsheet: chart charts, a diagram drawn from cells: list create delete
slides: presentation presentations, a deck of slides: list create update export
slides: template templates, a design for slides: list get
documents: document documents, a text with headings and comments: list get create update share search
documents: comment comments, a remark in the margin: list create close
pdf: file files, a PDF with pages: get convert compare search
pdf: form forms, fields of a PDF that can be filled in: get update
pdf: page pages, a single page to rotate, take out or merge: list move delete
photos: picture pictures, a photograph with place and date: list get search share delete convert
photos: album albums, pictures that belong together: list create share
video: recording recordings, a film or screen capture: list get convert share
video: subtitle subtitles, spoken words as text with times: list create export
audio: track tracks, a song or sound: list get convert
audio: transcript transcripts, speech turned into text: list create export
music: playlist playlists, songs in an order: list create update share
music: artist artists, a band or singer: get search
maps: route routes, the way from one place to another, with traffic: get create compare
maps: place places, a shop, restaurant or sight nearby: list get search
maps: area areas, an outline on the map: create export
weather: forecast forecasts, temperature, wind and rain of the next days: list get compare
weather: warning warnings, storms, floods and frost to come: list get
travel: flight flights, a plane connection with its price: list get search
travel: hotel hotels, a night's stay: list get search
travel: booking bookings, what was reserved and paid: list get create delete
trains: connection connections, a journey by rail with changes: list get search
trains: delay delays, how late a train is: get list
shop: order orders, what a customer bought: list get create update close search
shop: product products, an article with price and stock: list get create update delete search
shop: customer customers, who buys: list get create search
invoices: invoice invoices, a bill to a customer: list get create send close search
invoices: payment payments, money that came in: list get compare
invoices: overdue-notice overdue-notices, a reminder that a bill is unpaid: list create send
bank: account accounts, where money lies, with its balance: list get
bank: transfer transfers, money sent to another account: list create
bank: statement statements, what went in and out in a month: list get export
stocks: quote quotes, the price of a share now: get list compare
stocks: portfolio portfolios, shares that somebody owns: list get update
taxes: declaration declarations, what is told to the tax office: list create send
taxes: receipt receipts, proof of what was spent: list create import search
payroll: salary salaries, what an employee earns in a month: list get update export
payroll: absence absences, holidays and sick leave: list create delete
hiring: applicant applicants, somebody who wants a job, with CV: list get search move
hiring: vacancy vacancies, an open position: list create close
school: course courses, a class with its timetable: list get create
school: grade grades, marks of a pupil: list get update export
library: book books, a title with its author and shelf: list get search
library: loan loans, who has borrowed what until when: list create close
recipes: recipe recipes, a dish with ingredients and steps: list get create search
recipes: shopping-list shopping-lists, what has to be bought for a dish: get create share
fitness: workout workouts, a run, ride or training with distance: list get create
fitness: sleep-record sleep-records, how long and deeply one slept: list get export
health: prescription prescriptions, a medicine and its dose: list get
health: laboratory-result laboratory-results, blood values and other measurements: list get compare
home: lamp lamps, a light that can be dimmed: list get start stop update
home: thermostat thermostats, heating and its temperature: list get update
home: camera cameras, a view of the door or garden: list get start stop
sensors: reading readings, a measured value over time: list get export
sensors: alarm alarms, a limit that was passed: list create close
monitoring: dashboard dashboards, graphs of a running system: list get create
monitoring: incident incidents, an outage and who works on it: list get create close
monitoring: log-entry log-entries, a line that a program wrote: list search export
analytics: report reports, visitors and clicks of a web site: list get create export
analytics: funnel funnels, where visitors give up: get compare
ads: campaign campaigns, advertisements with a budget: list get create start stop
ads: keyword keywords, the words that an advertisement is shown for: list create delete
newsletter: issue-draft issue-drafts, a mailing to all subscribers: list create send
newsletter: subscriber subscribers, who gets the mailing: list create delete import
survey: questionnaire questionnaires, questions with choices: list create close
survey: answer answers, what was replied to the questions: list get export compare
translation: text texts, words in another language: convert compare
translation: glossary glossaries, terms and how they are rendered: list create update
news: article articles, what papers and agencies report: list get search
news: feed feeds, a source of articles: list create delete
papers: paper papers, a scientific publication with abstract and citations: list get search
papers: citation citations, a reference in a bibliography: list export convert
patents: patent patents, a protected invention: get search
law: ruling rulings, what a court decided: get search
law: contract contracts, an agreement with its clauses: list get create compare search
signatures: envelope envelopes, documents that wait to be signed: list create send
crm: lead leads, somebody who may buy: list get create update search
crm: deal deals, a sale that is under way, with its value: list get create update close
support: case cases, a customer's complaint or question: list get create update close search
support: macro macros, a reply that is often given: list create
games: match matches, a game of chess with its moves: list get create
geodata: dataset datasets, layers with coordinates: list get search convert export
genomics: sequence sequences, DNA or protein letters: get search compare convert
energy: meter meters, electricity, gas or water used: list get export
parcels: parcel parcels, a shipment on its way: list get create
printing: print-job print-jobs, pages sent to a printer: list start stop delete
warehouse: stock-item stock-items, what lies on which shelf and how many: list get update search
warehouse: delivery deliveries, goods that arrive or leave: list create close
concerts: seat seats, a place at a concert or play: list get search
concerts: show shows, a performance with date and hall: list get search
insurance: claim claims, damage that shall be paid for: list get create close
insurance: policy policies, what is insured and for how much: list get compare
estate: flat flats, an apartment or house to rent or buy: list get search compare
vehicles: car cars, a vehicle of the fleet with its mileage: list get update search
vehicles: fuel-stop fuel-stops, litres and price of a refuelling: list create export
browser: tab tabs, an open web page: list get create close
browser: bookmark bookmarks, an address to come back to: list create delete search
passwords: login logins, user name and password of a site: list get create update search
backup: snapshot snapshots, all files as they were at a moment: list get create delete compare
vault: key keys, a cryptographic key: list get create delete
vault: certificate certificates, proof of a server's identity and when it ends: list get create export
wiki: article-page article-pages, what a team knows about a topic: list get create update search
wiki: revision revisions, an earlier version of a page: list get compare
timesheet: entry entries, hours worked on a project: list create update delete export
"""
"""Domain, noun, its plural, what it is in other words, and what can be done with it."""

TASKS: Mapping[str, str] = {
    "Set up a meeting with Ana and Ben on Friday at ten": "calendar-create-event",
    "Which meeting rooms are free this afternoon?": "calendar-search-room",
    "Remind me at six to call the dentist": "calendar-create-reminder",
    "Mail the summary to the whole team": "mail-send-message",
    "Find the e-mail where Jo wrote about the lease": "mail-search-message",
    "Save the files that came with the last e-mail from the bank": "mail-export-attachment",
    "What is the phone number of Dr. Weber?": "contacts-get-person",
    "Tell the team in the channel general that the build is green": "chat-send-post",
    "Report a bug in the repository: the app crashes on start": "github-create-issue",
    "Open a pull request for the branch fix-login": "github-create-pull-request",
    "Publish version 2.1 with release notes": "github-create-release",
    "Run the continuous integration for main again": "gitlab-start-pipeline",
    "Move the ticket about the login page to done": "jira-move-ticket",
    "Begin the next sprint": "jira-start-sprint",
    "Which containers are running?": "docker-list-container",
    "Delete docker images that nobody uses": "docker-delete-image",
    "Scale the web deployment in the cluster to five copies": "kubernetes-update-deployment",
    "Rent a virtual machine with four cores": "cloud-create-server",
    "How much did the cloud cost us in May?": "cloud-get-bill",
    "Point www at the new address in the zone": "dns-update-record",
    "When does our domain expire?": "dns-get-domain",
    "Make a dump of the production database": "postgres-create-backup",
    "Draw a diagram of the sales per month from the cells": "spreadsheet-create-chart",
    "Put the measurements into a new spreadsheet": "spreadsheet-create-sheet",
    "Make a deck about our results for the board": "slides-create-presentation",
    "Fill in the application form in application.pdf": "pdf-update-form",
    "Rotate the third page of the scan": "pdf-move-page",
    "Show me the photographs from Lisbon in 2022": "photos-search-picture",
    "Turn this film into mp4": "video-convert-recording",
    "Write down what was said in interview.mp3": "audio-create-transcript",
    "Add these songs to my running playlist": "music-update-playlist",
    "How do I get from the station to the museum on foot?": "maps-get-route",
    "Is there a good restaurant nearby?": "maps-search-place",
    "Will it rain in Oslo tomorrow?": "weather-get-forecast",
    "The cheapest flight from Berlin to Rome next week": "travel-search-flight",
    "Cancel my hotel reservation": "travel-delete-booking",
    "Is the 8:15 train late?": "trains-get-delay",
    "Which orders has customer 1182 placed?": "shop-search-order",
    "Change the price of article 4711 to 19.90": "shop-update-product",
    "Bill the customer Miller for three days of work": "invoices-create-invoice",
    "Remind everybody whose bill is unpaid": "invoices-send-overdue-notice",
    "How much money is in our account?": "bank-get-account",
    "Wire 200 euros to the landlord": "bank-create-transfer",
    "What is the share of Siemens worth now?": "stocks-get-quote",
    "Enter two weeks of holidays in August for Kim": "payroll-create-absence",
    "Look through the CVs of those who applied as a designer": "hiring-search-applicant",
    "Does the library have a book on bees?": "library-search-book",
    "What can I cook with leeks and potatoes?": "recipes-search-recipe",
    "Dim the lamp in the living room": "home-update-lamp",
    "Make it two degrees warmer in the bedroom": "home-update-thermostat",
    "Find the error lines that the server wrote last night": "monitoring-search-log-entry",
    "Record an outage of the payment service": "monitoring-create-incident",
    "How many visitors did the web site have in March?": "analytics-get-report",
    "Pause the advertisements for winter coats": "ads-stop-campaign",
    "Send the mailing to all subscribers": "newsletter-send-issue-draft",
    "Translate the letter into French": "translation-convert-text",
    "What do the papers report about the election?": "news-search-article",
    "Find publications about perovskite solar cells": "papers-search-paper",
    "Compare the two contracts clause by clause": "law-compare-contract",
    "Where is my parcel?": "parcels-get-parcel",
}
"""Tasks in people's words, and the tool that does each best; the choice was made better with these."""
FRESH: Mapping[str, str] = {
    "Shift my dentist appointment from Monday to Tuesday": "calendar-update-event",
    "Have I got anything on Thursday morning?": "calendar-list-event",
    "Put everything from the tax office into the folder Finance": "mail-move-message",
    "From now on mark mail from the boss as important": "mail-create-filter",
    "Save Lena's new mobile number": "contacts-create-person",
    "Did anybody write something about the outage in the team chat?": "chat-search-post",
    "Have we got an open bug about dark mode already?": "github-search-issue",
    "What changed between the pull request and main?": "github-compare-pull-request",
    "The CI job hangs, end it": "gitlab-stop-pipeline",
    "Which cards are still left in our Jira project?": "jira-list-ticket",
    "Bring the database container up again": "docker-start-container",
    "Show me the pods that crashed": "kubernetes-list-pod",
    "Store the API token for the cluster's programs": "kubernetes-create-secret",
    "Shut down the test VM for the weekend": "cloud-stop-server",
    "I need an S3 bucket for the logs": "cloud-create-bucket",
    "Add a TXT entry for example.org": "dns-create-record",
    "Which columns does the customers table in Postgres have?": "postgres-get-table",
    "Restore last night's database dump": "postgres-import-backup",
    "Write the spreadsheet out as a CSV": "spreadsheet-export-sheet",
    "Give Tom access to the draft of the report": "documents-share-document",
    "Turn the PDF into plain text": "pdf-convert-file",
    "Take out page 4 of the PDF": "pdf-delete-page",
    "Make the photos smaller, as JPEG": "photos-convert-picture",
    "Put the holiday pictures together in an album": "photos-create-album",
    "Make subtitles for the talk": "video-create-subtitle",
    "I want a playlist for running": "music-create-playlist",
    "Is the motorway or the country road faster today?": "maps-compare-route",
    "Is there a storm coming up at the coast?": "weather-list-warning",
    "Where can I stay in Vienna for three nights?": "travel-search-hotel",
    "How do I get to Zurich by train on Sunday evening?": "trains-search-connection",
    "What has Mrs. Novak bought from us so far?": "shop-search-order",
    "Take the blue lamp out of the online shop": "shop-delete-product",
    "Send invoice 77 to the customer": "invoices-send-invoice",
    "Has the money for invoice 77 come in?": "invoices-list-payment",
    "What went out of the bank account in April?": "bank-get-statement",
    "Hand in the VAT return to the tax office": "taxes-send-declaration",
    "Give Maria a raise of three percent": "payroll-update-salary",
    "Advertise the position of a cook": "hiring-create-vacancy",
    "Enter a B for Paul in maths": "school-update-grade",
    "Extend what I borrowed from the library": "library-create-loan",
    "What do I have to buy for the lasagne?": "recipes-get-shopping-list",
    "How far did I run this week?": "fitness-list-workout",
    "Are my blood values better than last year?": "health-compare-laboratory-result",
    "Lights off in the kitchen": "home-stop-lamp",
    "Who is at the front door?": "home-get-camera",
    "Warn me when the freezer gets warmer than minus ten": "sensors-create-alarm",
    "How warm was the greenhouse over the last month?": "sensors-get-reading",
    "At which step do people leave the checkout?": "analytics-get-funnel",
    "Unsubscribe ben@example.org from the mailing": "newsletter-delete-subscriber",
    "Ask our customers ten questions about the service": "survey-create-questionnaire",
    "Follow the feed of the city council": "news-create-feed",
    "Give me the BibTeX of these references": "papers-export-citation",
    "Is the folding bicycle hinge patented?": "patents-search-patent",
    "Have the lease signed by both parties": "signatures-send-envelope",
    "Which prospects came in from the trade fair?": "crm-list-lead",
    "A customer complains about a scratched table": "support-create-case",
    "Print three copies of the poster": "printing-start-print-job",
    "How many bolts are left on shelf C4?": "warehouse-get-stock-item",
    "My phone screen broke, let the insurance pay": "insurance-create-claim",
    "When does the TLS certificate of the shop run out?": "vault-get-certificate",
}
"""As many more, written when the choice was done: nothing was changed because of them."""


@dataclass(frozen=True)
class Made:
    """One generated tool."""

    name: str
    description: str
    args: tuple[str, ...]


def toolbox() -> list[Made]:
    """All generated tools; those that the tasks need come first, so that the first N have many of them."""
    made: dict[str, Made] = {}
    for line in DOMAINS.splitlines():
        domain, noun, verbs = line.split(": ")
        words, _, means = noun.partition(", ")
        one, many = words.split()
        for verb in verbs.split():
            told, args = VERBS[verb]
            told = told.format(noun=one.replace("-", " "), plural=many.replace("-", " "))
            name = f"{domain}-{verb}-{one}"
            made[name] = Made(name, f"{told}: {means}", tuple(args.split()))
    needed = dict.fromkeys([*TASKS.values(), *FRESH.values()])
    first = [made[name] for name in needed]
    return [*first, *(each for name, each in made.items() if name not in needed)][:ALL]


def write_tools(system: Path, count: int) -> list[Made]:
    """Put the first `count` tools into a system folder as operations."""
    chosen = toolbox()[:count]
    folder = system / "operations"
    folder.mkdir(parents=True, exist_ok=True)
    for each in chosen:
        meta = {
            "name": each.name,
            "description": each.description,
            "args": {name: {"type": "string"} for name in each.args},
            "required": list(each.args[:1]),
            "run": "command: ./tool.py",
            "effects": ["network"],
        }
        (folder / f"{each.name}.md").write_text(f"---\n{yaml.safe_dump(meta)}---\n", "utf-8")
    return chosen
