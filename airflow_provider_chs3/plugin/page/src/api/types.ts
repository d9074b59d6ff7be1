// Names for the types that are made from the API's own description of its answers.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Periods = Schemas["Periods"];
export type FailedRun = Schemas["FailedRun"];
export type ConnectionPeriods = Schemas["ConnectionPeriods"];
export type PeriodRow = Schemas["PeriodRow"];
export type Unread = Schemas["UnreadPeriods"];
export type State = PeriodRow["state"];
export type Task = Schemas["Task"];
export type PeriodDetails = Schemas["PeriodDetails"];
export type Load = Schemas["Load"];
export type Inserting = Schemas["Inserting"];
export type FinishedLoad = Schemas["FinishedLoad"];
export type Failure = Schemas["Failure"];
export type Setting = Schemas["Setting"];
export type NodeOfPeriod = Schemas["NodeOfPeriod"];
export type Changes = Schemas["Changes"];
export type Objects = Schemas["Objects"];
export type PeriodParts = Schemas["PeriodParts"];
export type Speed = Schemas["Speed"];
export type ConnectionSpeed = Schemas["ConnectionSpeed"];
export type LoadSpeed = Schemas["LoadSpeed"];
export type Cluster = Schemas["Cluster"];
export type ConnectionNodes = Schemas["ConnectionNodes"];
export type NodeOverview = Schemas["NodeOverview"];
export type Rights = Schemas["Rights"];
export type DagRights = Schemas["DagRights"];
